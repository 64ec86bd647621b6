"""The client for a command's service, and the commands `dealkit deal` and `dealkit check`.

The base URL comes from an option or an environment variable. The service key comes only from an environment variable,
or from a file that an environment variable names.
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
from dealkit._cli.error_messages import exit_code_for, format_error_with_advice
from dealkit._cli.exit_codes import DONE, SERVICE_FAILED, CommandError
from dealkit._cli.shells import set_variable_lines
from dealkit._cli.terminal import (
    colorize,
    escape_controls,
    format_outline,
    format_pairs,
    is_valid_unicode,
    print_result,
)

NO_BASE_URL_MESSAGE = """\
The address of the service is missing. Add it to the command, as in --base-url https://deals.example.com, or put it into the \
environment variable DEALKIT_BASE_URL."""

_KEY_NOT_CHECKED = """\
The response to a made-up key is the same as to yours, so keys seem not to be checked at this address. Check the service's \
address (base URL), with its path."""


def make_client(options: Namespace, *, max_retries: int | None = None) -> Client:
    """Creates a client from the options of the command line."""
    if not (_environment_variable("DEALKIT_SERVICE_KEY") or os.environ.get("DEALKIT_SERVICE_KEY_FILE")):
        raise CommandError(_missing_key_message())
    if not service_url(options):
        raise CommandError(NO_BASE_URL_MESSAGE)
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


def _missing_key_message() -> str:
    lines = "\n".join(f"  {line}" for line in set_variable_lines("DEALKIT_SERVICE_KEY"))
    return (
        "The service key (your password for the service) is missing. To enter it, run this line, and type or paste the key:\n"
        f"{lines}\n"
        "Then repeat the command in the same window. If the key is in a file, put the name of the file into the environment "
        "variable DEALKIT_SERVICE_KEY_FILE instead."
    )


def service_url(options: Namespace) -> str:
    """Returns the base URL that the user has given, or an empty string."""
    url: str = options.base_url or _environment_variable("DEALKIT_BASE_URL")
    return url.rstrip("/")


def _environment_variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not is_valid_unicode(value):
        raise CommandError(f"The environment variable {name} contains characters that are not text. Set it again.")
    return value


def generate_unknown_id() -> str:
    """Generates a key or id that the service does not know."""
    return f"dealkit-check-{secrets.token_hex(8)}"


def probe_service(client: Client) -> RawResponse[Deal] | DealkitError:
    """Requests a deal that does not exist, to see whether the service responds. Returns the response, or the error."""
    try:
        response = client.with_raw_response.deals.retrieve(generate_unknown_id())
        response.parse()
        return response
    except DealkitError as error:
        return error


def show_deal(options: Namespace) -> int:
    """Retrieves a deal and prints it."""
    with make_client(options) as client:
        found_deal = client.deals.retrieve(options.id)
    if options.json:
        options.result = found_deal.to_json(indent=2)
    else:
        print_result(colorize(f"Deal {escape_controls(found_deal.id)}", "bold"))
        for line in format_outline({name: value for name, value in found_deal.to_dict().items() if name != "id"}):
            print(line)
    return DONE


def check_service(options: Namespace) -> int:
    """Checks whether the service responds and accepts the key."""
    if options.deal:
        raise CommandError("--deal works only together with --conformance. Add --conformance, or remove --deal.")
    with make_client(options, max_retries=0) as client:
        start_time = time.monotonic()
        response = probe_service(client)
        elapsed_text = f"{(time.monotonic() - start_time) * 1000:.0f} ms"
        key_state, problem, code = _check_key(client, response)
    facts = {"service": escape_controls(service_url(options))}
    match response:
        case APIConnectionError(outcome="not_sent"):
            facts["reached"] = f"no, after {elapsed_text}"
        case APIStatusError() | RawResponse():
            facts["reached"] = f"yes, in {elapsed_text}, over {response.http_version}"
            facts["key"] = key_state
        case _:
            facts["reached"] = f"yes, in {elapsed_text}, but it did not respond as it should"
    options.result.update(facts)
    print_result(format_pairs({name.capitalize(): text for name, text in facts.items()}))
    if problem:
        options.result["errors"].append({"message": problem})
        print_result(f"\n{problem}")
    return code


def _check_key(client: Client, response: RawResponse[Deal] | DealkitError) -> tuple[str, str, int]:
    """Returns the state of the key, the problem with it (an empty string if the service accepts it), and the exit
    code."""
    match response:
        case AuthenticationError():
            return "not accepted", format_error_with_advice(response), SERVICE_FAILED
        case PermissionDeniedError():
            return "not allowed to read deals", format_error_with_advice(response), SERVICE_FAILED
        case DealkitError() if not isinstance(response, NotFoundError):
            return "unclear whether it is accepted", format_error_with_advice(response), exit_code_for(response)
    # Any web server responds with 404 to an unknown path. Only a service that checks keys rejects an unknown key.
    with client.with_options(service_key=generate_unknown_id()) as client_with_unknown_key:
        unknown_key_response = probe_service(client_with_unknown_key)
    if isinstance(unknown_key_response, AuthenticationError | PermissionDeniedError):
        return "accepted", "", DONE
    problem = (
        _KEY_NOT_CHECKED
        if isinstance(unknown_key_response, NotFoundError | RawResponse)
        else format_error_with_advice(unknown_key_response)
    )
    return "unclear whether it is accepted", problem, SERVICE_FAILED
