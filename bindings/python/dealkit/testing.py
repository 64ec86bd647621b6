"""A sandbox of the Agent and Deal API for tests, and stubs that replace clients.

>>> from dealkit import Client
>>> from dealkit.testing import Sandbox
>>> with Sandbox(deals=[{"id": "won", "status": "CLOSED"}]) as sandbox:
...     client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
...     deal = client.deals.retrieve("won")

The sandbox fails on demand, and records the requests:

>>> with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
...     sandbox.fail_next(status=503, times=2, retry_after=0)
...     deal = client.deals.retrieve("d_1")
...     print([request.status for request in sandbox.requests])
[503, 503, 200]

With pytest, the fixtures ``dealkit_sandbox``, ``dealkit_client`` and ``dealkit_async_client`` are available without
any setup.

For functions that take ``dealkit.Operations``, a ``Stub`` can replace the client. A stub needs no socket. Its calls
return the values, or raise the exceptions, that your test specifies.
"""

from dealkit._testing.records import CreatedAgent, PendingFault, RecordedRequest
from dealkit._testing.sandbox import VARIANTS, Sandbox
from dealkit._testing.stub import AsyncStub, Stub

__all__ = [
    "VARIANTS",
    "AsyncStub",
    "CreatedAgent",
    "PendingFault",
    "RecordedRequest",
    "Sandbox",
    "Stub",
]
