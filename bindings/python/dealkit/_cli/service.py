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
from dealkit._cli.screen import is_text, outline, painted, pairs, safe, say

_NO_KEY = """\
the service key is missing: put it into the environment variable DEALKIT_SERVICE_KEY. To keep it out of your shell's history, let \
the shell ask for it:
  read -rs DEALKIT_SERVICE_KEY && export DEALKIT_SERVICE_KEY
Or put the path of a file with the key into DEALKIT_SERVICE_KEY_FILE."""

NO_ADDRESS = """\
the address of the service is missing: pass it with --base-url https://deals.example.com, or put it into the environment variable \
DEALKIT_BASE_URL"""

_ANYBODY = """\
Something responds, but to a made-up key as it does to yours, so nothing looks at keys there. Check the base URL, its path too."""


def connect(options: Namespace, *, max_retries: int | None = None) -> Client:
    """A client with the options of the command line. Nothing is sent yet."""
    if not (_variable("DEALKIT_SERVICE_KEY") or os.environ.get("DEALKIT_SERVICE_KEY_FILE")):
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
    given: str = options.base_url or _variable("DEALKIT_BASE_URL")
    return given.rstrip("/")


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not is_text(value):
        raise Failed(f"the environment variable {name} is not valid text")
    return value


def made_up() -> str:
    """A key or an id that nobody has."""
    return f"dealkit-check-{secrets.token_hex(8)}"


def probe(client: Client) -> RawResponse[Deal] | DealkitError:
    """Requests a deal that does not exist, which shows whether the service is there, and changes nothing."""
    try:
        response = client.with_raw_response.deals.retrieve(made_up())
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
        say(painted(f"Deal {safe(found.id)}", "bold"))
        for lines in outline({name: value for name, value in found.to_dict().items() if name != "id"}):
            print(lines)
    return DONE


def check(options: Namespace) -> int:
    """Can the service be reached, and does it accept the key?"""
    if options.deal:
        raise Failed("--deal belongs to --conformance, which is missing")
    with connect(options, max_retries=0) as client:
        begun = time.monotonic()
        response = probe(client)
        took = f"{(time.monotonic() - begun) * 1000:.0f} ms"
        accepted, why, code = _look_at_key(client, response)
    found = {"service": safe(address(options))}
    match response:
        case APIConnectionError(outcome="not_sent"):
            found["reached"] = f"no, after {took}"
        case APIStatusError() | RawResponse():
            found["reached"] = f"yes, in {took}, over {response.http_version}"
            found["key"] = accepted
        case _:
            found["reached"] = f"yes, in {took}, but it did not respond as it should"
    options.result.update(found)
    say(pairs({name.capitalize(): text for name, text in found.items()}))
    if why:
        options.result["errors"].append({"message": why})
        say(f"\n{why}")
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
    with client.with_options(service_key=made_up()) as stranger:
        refusal = probe(stranger)
    if isinstance(refusal, AuthenticationError | PermissionDeniedError):
        return "accepted", "", DONE
    why = _ANYBODY if isinstance(refusal, NotFoundError | RawResponse) else explanation(refusal)
    return "unclear whether it is accepted", why, NO_SERVICE
