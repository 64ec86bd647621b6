"""`dealkit check`: can the service be reached, and does it accept the key?"""

from __future__ import annotations

import secrets
import time
from argparse import Namespace
from typing import NamedTuple

from dealkit import (
    APIConnectionError,
    APIStatusError,
    AuthenticationError,
    Client,
    Deal,
    DealkitError,
    NotFoundError,
    PermissionDeniedError,
    RawResponse,
)
from dealkit._cli.advice import code_of, explanation
from dealkit._cli.connection import address, connect, probe
from dealkit._cli.exits import DONE, NO_SERVICE
from dealkit._cli.screen import safe, say, say_table

_ANYBODY = """\
Something responds, but it responds to a made-up key as it does to yours: it may be another server, or another path of
the service, and the key has not been looked at. Check the base URL, its path too."""

_NOT_FOUND_OUT = """\
Something responds, but how it responds to a made-up key, which would show whether keys are looked at, could not be found
out:"""


class _Finding(NamedTuple):
    key: str
    """What is known of the key."""
    why: str = ""
    code: int = NO_SERVICE


def run(options: Namespace) -> int:
    """Requests a deal that does not exist, and reports how that went."""
    where = address(options)
    with connect(options, max_retries=0) as client:
        begun = time.monotonic()
        response = probe(client)
        took = _duration(time.monotonic() - begun)
        found = _finding(client, response)
    say_table([("Service", safe(where)), *_shown(response, where, took, found)])
    if found.why:
        say()
        say(found.why)
    return found.code


def _finding(client: Client, response: RawResponse[Deal] | DealkitError) -> _Finding:
    match response:
        case AuthenticationError():
            return _Finding("not accepted", explanation(response))
        case PermissionDeniedError():
            return _Finding("not allowed to read deals", explanation(response))
        case NotFoundError() | RawResponse():
            pass
        case _:
            return _Finding("unclear whether it is accepted", explanation(response), code_of(response))
    # Any web server says that there is no such page. Only what looks at keys refuses one that nobody has.
    with client.with_options(service_key=f"dealkit-check-{secrets.token_hex(8)}") as stranger:
        refusal = probe(stranger)
    match refusal:
        case AuthenticationError() | PermissionDeniedError():
            return _Finding("accepted", code=DONE)
        case NotFoundError() | RawResponse():
            return _Finding("unclear whether it is accepted", _ANYBODY)
    return _Finding("unclear whether it is accepted", f"{_NOT_FOUND_OUT} {explanation(refusal)}")


def _shown(response: RawResponse[Deal] | DealkitError, where: str, took: str, found: _Finding) -> list[tuple[str, ...]]:
    match response:
        case APIConnectionError(outcome="not_sent"):
            return [("Reached", f"no, after {took}")]
        case APIStatusError() | RawResponse():
            reached = f"yes, in {took}, over {response.http_version}"
        case _:
            return [("Reached", f"yes, in {took}, but it did not respond as it should")]
    is_https = where.lower().startswith("https:")
    # The transport does not say which of the two versions it was.
    secure = "yes: TLS 1.3 or 1.2, with a trusted certificate" if is_https else "no: plain HTTP"
    return [("Reached", reached), ("Secure", secure), ("Key", found.key)]


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
