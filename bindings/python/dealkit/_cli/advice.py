"""Errors of calls, for people at a terminal: what went wrong and what they can do about it."""

from __future__ import annotations

import sqlite3

from dealkit import (
    APIConnectionError,
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
from dealkit._cli.exits import INCOMPLETE, NO_SERVICE, UNWRITABLE, WRONG, Failed
from dealkit._cli.screen import safe

OF_THE_SERVICE = (APIConnectionError, InternalServerError, RateLimitError, ThrottledError)
"""Errors that are likely to be the same for every call, and to be temporary."""

# The command's options and variables, by the setting of a client.
_OPTIONS = {
    "base_url": "--base-url",
    "service_key": "DEALKIT_SERVICE_KEY",
    "service_key_file": "DEALKIT_SERVICE_KEY_FILE",
    "on_unreadable": "--on-unreadable skip",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in ("allow_http", "ca_file", "client_cert", "rate_limit", "timeout")
    },
}

# What to do, beyond what the error itself says.
_HINTS: dict[type[DealkitError], str] = {
    AuthenticationError: "The service rejects the key. Is it the key for this service, and is it complete? Whoever issued it can tell "
    "you whether it is still valid.",
    PermissionDeniedError: "The service knows the key, but does not allow it to do this. Ask whoever issued the key.",
    NotFoundError: "The service has no such deal. Are the id and the service's URL right?",
    RateLimitError: "The service asks for fewer requests. Try again later, or set --rate-limit for a job.",
    ThrottledError: "The service asked for a pause, or --rate-limit is too low for --timeout.",
    InternalServerError: "The service failed. Try again later; its support can find the request by its id.",
    APITimeoutError: "The service took too long. Try again later. A longer --timeout helps only creates: an attempt to read "
    "ends after 30 s. Is a firewall in the way?",
    DecodeError: "The service should not send this. Is the base URL right? Is a login page in the way?",
}
_LEDGER_HINTS = {
    "other_keys": "--key selects the column with the keys. If it is still the same column, give it its old name.",
    "other_service": "If it is the same service, with the same agents, record its new URL with dealkit ledger set-base-url. If it is a "
    "different service, leave out --ledger: each service has its own.",
}


def in_words(error: DealkitError) -> str:
    """Returns the text of an error, with the command's option in place of the setting that the error concerns."""
    text, setting = str(error), error.setting
    if setting and (option := _OPTIONS.get(setting)):
        if text.startswith(f"{setting} "):
            text = f"{option}{text.removeprefix(setting)}"
        text = text.replace(f" [see {setting}]", f" [see {option}]")
    return safe(text)


def explanation(error: DealkitError) -> str:
    """What went wrong, and what to do about it."""
    hint = _LEDGER_HINTS.get(error.reason) if isinstance(error, LedgerError) else _HINTS.get(type(error))
    return f"{in_words(error)}\n{hint}" if hint else in_words(error)


def failure_of(error: DealkitError | sqlite3.Error) -> Failed:
    """The end of a command because of an error."""
    if isinstance(error, DealkitError):
        return Failed(explanation(error), code_of(error))
    # What does not fit in memory is in a temporary database.
    return Failed(f"a temporary file cannot be written: {error}", UNWRITABLE)


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
