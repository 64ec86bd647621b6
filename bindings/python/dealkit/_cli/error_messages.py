"""Error messages for people at a terminal: the cause and the action to take."""

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
from dealkit._cli.exit_codes import INCOMPLETE, SERVICE_FAILED, UNWRITABLE, WRONG_USAGE, CommandError
from dealkit._cli.terminal import escape_controls

SERVICE_ERRORS = (APIConnectionError, InternalServerError, RateLimitError, ThrottledError)
"""Errors that are likely to be temporary and to affect all calls alike."""

# The command's options and environment variables, by the client's setting that each of them sets.
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

# The action to take after an error whose own message does not state the action.
_ADVICE: dict[type[DealkitError], str] = {
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
_LEDGER_ADVICE = {
    "other_keys": "--key selects the column with the keys. If it is still the same column, give it its old name.",
    "other_service": "If it is the same service, with the same agents, record its new URL with dealkit ledger set-base-url. If it is a "
    "different service, leave out --ledger: each service has its own.",
}


def format_error(error: DealkitError) -> str:
    """Returns the message of an error. If the error concerns a client's setting, the message names the command's option
    instead."""
    text, setting = str(error), error.setting
    if setting and (option := _OPTIONS.get(setting)):
        if text.startswith(f"{setting} "):
            text = f"{option}{text.removeprefix(setting)}"
        text = text.replace(f" [see {setting}]", f" [see {option}]")
    return escape_controls(text)


def format_error_with_advice(error: DealkitError) -> str:
    """Formats an error's message and the action to take."""
    advice = _LEDGER_ADVICE.get(error.reason) if isinstance(error, LedgerError) else _ADVICE.get(type(error))
    return f"{format_error(error)}\n{advice}" if advice else format_error(error)


def to_command_error(error: DealkitError | sqlite3.Error) -> CommandError:
    """Converts an error to the exception that ends the command."""
    if isinstance(error, DealkitError):
        return CommandError(format_error_with_advice(error), exit_code_for(error))
    # The command stores large data in a temporary SQLite database, whose file cannot be written.
    return CommandError(f"a temporary file cannot be written: {error}", UNWRITABLE)


def exit_code_for(error: DealkitError) -> int:
    """Returns the exit code of a command that ends with an error."""
    match error:
        case LedgerError(reason="io" | "unreachable"):
            return UNWRITABLE
        case ConfigError() | ValidationError() | LedgerError():
            return WRONG_USAGE
        case NotFoundError():
            return INCOMPLETE
    return SERVICE_FAILED
