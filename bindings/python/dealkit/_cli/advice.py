"""Errors of calls, for people at a terminal: what went wrong and what they can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from os import environ

from dealkit import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    ConfigError,
    DealkitError,
    DecodeError,
    InternalServerError,
    LedgerError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ThrottledError,
    ValidationError,
)
from dealkit._cli.exits import INCOMPLETE, NO_SERVICE, UNWRITABLE, WRONG
from dealkit._cli.screen import safe

NO_KEY = """\
the service key is missing: put it into the environment variable DEALKIT_SERVICE_KEY. To keep it out of your shell's
history, let the shell ask for it:
  read -rs DEALKIT_SERVICE_KEY && export DEALKIT_SERVICE_KEY
in PowerShell:
  $env:DEALKIT_SERVICE_KEY = Read-Host
Or put the path of a file with the key into DEALKIT_SERVICE_KEY_FILE."""

NO_ADDRESS = """\
the address of the service is missing: pass it with --base-url https://deals.example.com, or put it into the environment
variable DEALKIT_BASE_URL"""

OF_THE_SERVICE = (APIConnectionError, InternalServerError, RateLimitError, ThrottledError)
"""Errors that are likely to be the same for every call, and to be temporary."""

# What the options of a client are called on the command line.
_SETTINGS = {
    "base_url": "the base URL",
    "service_key": "DEALKIT_SERVICE_KEY",
    "service_key_file": "DEALKIT_SERVICE_KEY_FILE",
    "ca_file": "--ca-file",
    "client_cert": "--client-cert",
    "allow_http": "--allow-http",
    "on_unreadable": "--on-unreadable none",
    "rate_limit": "--rate-limit",
    "resend_unknown": "--resend-unknown",
    "timeout": "--timeout",
}


def in_words(error: DealkitError, entries: Mapping[int, str] | None = None) -> str:
    """The text of an error, with the names used on the command line, and those of the entries given to a ledger."""
    text = error.text({**_SETTINGS, **(entries or {})})
    return safe(f"{text}: {error.details}" if error.details else text)


def explanation(error: DealkitError) -> str:
    """What went wrong, and what to do about it."""
    lines = [safe(error.text(_SETTINGS))]
    if error.details:
        lines.append(f"({safe(error.details)})")
    if hint := _hint(error):
        lines.append(hint)
    return "\n".join(lines)


def _hint(error: DealkitError) -> str | None:
    match error:
        case AuthenticationError():
            is_text = "DEALKIT_SERVICE_KEY" in environ
            where = "DEALKIT_SERVICE_KEY" if is_text else "the file that DEALKIT_SERVICE_KEY_FILE names"
            return (
                f"The service does not accept the key in {where}. Is it the key for this service, and is it "
                "complete? Whoever issued it can say whether it is still valid."
            )
        case PermissionDeniedError():
            return "The service knows the key, but the key does not allow this. Ask whoever issued it for permission."
        case NotFoundError():
            return "The service has no such deal. Are the id and the address of the service right?"
        case RateLimitError():
            return "The service asks for fewer requests. Try again later; imports and exports take --rate-limit."
        case ThrottledError():
            return "The service asks to wait, or --rate-limit is lower than what is to be sent within --timeout."
        case InternalServerError():
            return "The service has failed. Try again later; the service's support can find the request by its id."
        case APIStatusError(status_code=407):
            return "The proxy requires a user name and a password: put them into HTTPS_PROXY, as in http://user:password@proxy:3128."
        case APITimeoutError():
            return (
                "The service took too long. Try again, perhaps with a larger --timeout; is there a firewall in between?"
            )
        case APIConnectionError(outcome="unknown"):
            return "The connection broke. Try again."
        case LedgerError(reason="other_keys"):
            return "--key says which column holds the keys. If it is still the same column, give it its old name."
        case LedgerError(reason="several"):
            return "--base-url and --key say which one."
        case DecodeError():
            return "This is not what the service should send. Is the base URL right? Is there a login page in between?"
    return None


def code_of(error: DealkitError) -> int:
    """The exit code of a command that an error has ended."""
    match error:
        case LedgerError(reason="io" | "unreachable"):
            return UNWRITABLE
        case ConfigError() | ValidationError() | LedgerError():
            return WRONG
        case NotFoundError():
            return INCOMPLETE
    return NO_SERVICE
