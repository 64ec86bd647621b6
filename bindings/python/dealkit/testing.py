"""A server of the Agent and Deal interface to test against, and errors made by hand.

>>> from dealkit import Client
>>> from dealkit.testing import Sandbox
>>> with Sandbox(deals=[{"id": "won", "status": "CLOSED"}]) as sandbox:
...     client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
...     deal = client.deals.retrieve("won")

It fails on demand, and shows what it saw:

>>> with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
...     sandbox.fail_next(status=503, times=2, retry_after=0)
...     deal = client.deals.retrieve("d_1")
...     print([request.status for request in sandbox.requests])
[503, 503, 200]

With pytest, the fixtures ``dealkit_sandbox``, ``dealkit_client`` and ``dealkit_async_client`` are available without
any setup.

To test what a program does with an error, make one by hand, the same as a call would raise:

>>> from unittest.mock import Mock
>>> from dealkit.testing import timeout_error
>>> client = Mock(Client)
>>> client.agents.create.side_effect = timeout_error(operation="POST /v1/agents")  # it timed out after it was sent
>>> client.agents.create.side_effect.may_have_acted
True
"""

from dealkit._testing.made_errors import (
    ErrorOptions,
    connection_error,
    decode_error,
    status_error,
    throttled_error,
    timeout_error,
)
from dealkit._testing.recorded import CreatedAgent, PendingFault, RecordedRequest
from dealkit._testing.sandbox import READINGS, Sandbox

__all__ = [
    "READINGS",
    "CreatedAgent",
    "ErrorOptions",
    "PendingFault",
    "RecordedRequest",
    "Sandbox",
    "connection_error",
    "decode_error",
    "status_error",
    "throttled_error",
    "timeout_error",
]
