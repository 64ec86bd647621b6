"""`dealkit check`: can the service be reached, and does it accept the key?"""

from __future__ import annotations

import time
from argparse import Namespace

from dealkit._cli.advice import code_of, explanation
from dealkit._cli.connection import address, connect, probe
from dealkit._cli.exits import DONE
from dealkit._cli.screen import safe, say, table
from dealkit._native import Deal, RawResponse
from dealkit.exceptions import (
    APIConnectionError,
    APIStatusError,
    AuthenticationError,
    DealkitError,
    NotFoundError,
    PermissionDeniedError,
)


def run(options: Namespace) -> int:
    """Requests a deal that does not exist, and reports how that went."""
    with connect(options, max_retries=0) as client:
        where = address(options)
        begun = time.monotonic()
        response = probe(client)
        took = _duration(time.monotonic() - begun)
    for line in table([("Service", safe(where)), *_findings(response, where, took)]):
        say(line)
    if isinstance(response, RawResponse):
        return DONE
    if not isinstance(response, NotFoundError):
        say()
        say(explanation(response))
        return code_of(response)
    if response.problem is None:
        say()
        say(
            "The body of its 404 response is not one that the interface defines. If nothing else works, check the path in "
            "the base URL."
        )
    return DONE


def _findings(response: RawResponse[Deal] | DealkitError, where: str, took: str) -> list[tuple[str, ...]]:
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
    match response:
        case NotFoundError() | RawResponse():
            key = "accepted"
        case AuthenticationError():
            key = "not accepted"
        case PermissionDeniedError():
            key = "not allowed to read deals"
        case _:
            key = "unclear whether it is accepted"
    return [("Reached", reached), ("Secure", secure), ("Key", key)]


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
