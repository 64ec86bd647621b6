"""The service that a command uses, and the two commands that only read: `dealkit deal` and `dealkit check`.

Its address comes from an option or the environment, its key only from the environment or a file that it names.
"""

from __future__ import annotations

import os
import secrets
import time
from argparse import Namespace

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
from dealkit._cli.exits import DONE, NO_SERVICE, Failed
from dealkit._cli.screen import label, pairs, safe, say, say_all, tree

_NO_KEY = """\
the service key is missing: put it into the environment variable DEALKIT_SERVICE_KEY. To keep it out of your shell's history, let \
the shell ask for it:
  read -rs DEALKIT_SERVICE_KEY && export DEALKIT_SERVICE_KEY
in PowerShell:
  $env:DEALKIT_SERVICE_KEY = Read-Host
Or put the path of a file with the key into DEALKIT_SERVICE_KEY_FILE."""

NO_ADDRESS = """\
the address of the service is missing: pass it with --base-url https://deals.example.com, or put it into the environment variable \
DEALKIT_BASE_URL"""

_ANYBODY = """\
Something responds, but it responds to a made-up key as it does to yours: it may be another server, or another path of the \
service, and the key has not been looked at. Check the base URL, its path too."""

_NOT_FOUND_OUT = """\
Something responds, but how it responds to a made-up key, which would show whether keys are looked at, could not be found out:"""


def connect(options: Namespace, *, max_retries: int | None = None) -> Client:
    """A client with the options of the command line. Nothing is sent yet."""
    if not (os.environ.get("DEALKIT_SERVICE_KEY") or os.environ.get("DEALKIT_SERVICE_KEY_FILE")):
        raise Failed(_NO_KEY)
    if not address(options):
        raise Failed(NO_ADDRESS)
    return Client(
        base_url=options.base_url,
        timeout=options.timeout,
        ca_file=options.ca_file,
        client_cert=options.client_cert,
        allow_http=options.allow_http,
        rate_limit=getattr(options, "rate_limit", None),
        max_retries=max_retries,
        on_unreadable=getattr(options, "on_unreadable", None),
    )


def address(options: Namespace) -> str:
    """The address of the service, as the user gave it."""
    given: str = options.base_url or os.environ.get("DEALKIT_BASE_URL", "")
    return given.rstrip("/")


def probe(client: Client) -> RawResponse[Deal] | DealkitError:
    """Requests a deal that does not exist, which shows whether the service is there, and changes nothing."""
    try:
        response = client.with_raw_response.deals.retrieve(f"dealkit-check-{secrets.token_hex(8)}")
        response.parse()
        return response
    except DealkitError as error:
        return error


def deal(options: Namespace) -> int:
    """Retrieves a deal and shows it."""
    with connect(options) as client:
        found = client.deals.retrieve(options.id)
    if options.json:
        options.result = found.to_json(indent=2)
    else:
        say_all(tree("Deal", found.to_dict()))
    return DONE


def check(options: Namespace) -> int:
    """Can the service be reached, and does it accept the key?"""
    if options.deal or options.creates or options.profile_out:
        raise Failed("--deal, --creates and --profile-out belong to --contract, which is missing")
    where = address(options)
    with connect(options, max_retries=0) as client:
        begun = time.monotonic()
        response = probe(client)
        took = _duration(time.monotonic() - begun)
        accepted, why, code = _look_at_key(client, response)
    found = {"service": safe(where)}
    match response:
        case APIConnectionError(outcome="not_sent"):
            found["reached"] = f"no, after {took}"
        case APIStatusError() | RawResponse():
            found["reached"] = f"yes, in {took}, over {response.http_version}"
            # The transport does not say which of the two versions it was.
            is_https = where.lower().startswith("https:")
            found["secure"] = "yes: TLS 1.3 or 1.2, with a trusted certificate" if is_https else "no: plain HTTP"
            found["key"] = accepted
        case _:
            found["reached"] = f"yes, in {took}, but it did not respond as it should"
    options.result.update(found)
    say_all(pairs({label(name): text for name, text in found.items()}))
    if why:
        options.result["errors"].append({"message": why})
        say()
        say(why)
    return code


def _look_at_key(client: Client, response: RawResponse[Deal] | DealkitError) -> tuple[str, str, int]:
    """What is known of the key, why it is not accepted, and the exit code."""
    match response:
        case AuthenticationError():
            return "not accepted", explanation(response), NO_SERVICE
        case PermissionDeniedError():
            return "not allowed to read deals", explanation(response), NO_SERVICE
        case DealkitError() if not isinstance(response, NotFoundError):
            return "unclear whether it is accepted", explanation(response), code_of(response)
    # Any web server says that there is no such page. Only what looks at keys refuses one that nobody has.
    with client.with_options(service_key=f"dealkit-check-{secrets.token_hex(8)}") as stranger:
        refusal = probe(stranger)
    match refusal:
        case AuthenticationError() | PermissionDeniedError():
            return "accepted", "", DONE
        case NotFoundError() | RawResponse():
            return "unclear whether it is accepted", _ANYBODY, NO_SERVICE
    return "unclear whether it is accepted", f"{_NOT_FOUND_OUT} {explanation(refusal)}", NO_SERVICE


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
