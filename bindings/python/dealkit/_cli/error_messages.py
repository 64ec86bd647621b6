"""Error messages for people at a terminal: the cause and the action to take."""

from __future__ import annotations

import sqlite3

from dealkit import (
    AlreadyAttemptedError,
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
    ServiceKeyError,
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
    AuthenticationError: "The service rejects the service key (your password for the service). Check that the key is complete, and "
    "that it is the key for this service. If it is, ask the service's operator whether it is still valid.",
    PermissionDeniedError: "The service knows the service key (your password for the service), but the key does not permit this "
    "request. Ask the service's operator for the permission.",
    NotFoundError: "The service has no such deal. Check the id, and the service's address (base URL).",
    RateLimitError: "The service received too many requests. Wait a few minutes, then repeat the command. For an import or export, "
    "--rate-limit sets the maximum number of requests per second.",
    ThrottledError: "The request would have had to wait for longer than --timeout: the service asked for a pause, or --rate-limit is "
    "too low. Try again later, or use a longer --timeout.",
    InternalServerError: "The service failed. Try again later. If it fails again, inform the service's operator, and quote the "
    "message above, with the request id if there is one.",
    APITimeoutError: "The service did not respond in time. Try again later. If this happens again, ask your IT department whether a "
    "firewall blocks the connection. A longer --timeout helps only imports, because reading ends after 30 seconds.",
    DecodeError: "The service should not send such a response. Check the service's address (base URL). Perhaps the login page of "
    "your network has responded instead of the service: open any web page, and log in.",
}

# The action to take after an error of the ledger, by its reason. Other reasons have messages that need no addition. No advice
# leads to a new ledger, with which rows would be sent again.
_LEDGER_ADVICE = {
    "in_use": "The ledger is the list of rows already sent. Wait until the other program has ended, then repeat the command.",
    "io": "The ledger is the list of rows already sent. Check that its file is not open in another program, and that its folder can be "
    "written to. Then repeat the command with the same ledger.",
    "moved": "The ledger is the list of rows already sent. If its file is missing, look for it in the recycle bin and in other folders, "
    "and put it back. If it is lost and there is no backup, delete all rows that may have been sent from the table (the report lists "
    "them). Then move the ledger's other files to another folder, and repeat the command.",
    "newer_format": "To update dealkit, then repeat the command with the same ledger:\n  pip install --upgrade dealkit",
    "not_a_ledger": "A ledger is the list of rows already sent. Check the name in --ledger. If earlier imports used a ledger, name that "
    "one: with a new ledger, their rows would be sent again.",
    "unreachable": "The ledger (the list of rows already sent) is in a database. Ask your IT department whether the database is running, "
    "then repeat the command with the same ledger.",
}

_CONNECTION_ADVICE = (
    "Check your internet connection and the service's address (base URL), then try again. If this happens again, ask your IT "
    "department whether a firewall or a proxy blocks the connection."
)

# The action to take after an error of a setting, by the setting.
_SETTING_ADVICE = {
    "base_url": "The address looks like https://deals.example.com. Copy it again, or ask the service's operator for it.",
    "service_key": "Copy the service key (your password for the service) again, without spaces before or after it.",
    "service_key_file": "The file must contain only the service key (your password for the service).",
}


def format_error(error: DealkitError) -> str:
    """Returns the message of an error. If the error concerns a client's setting, the message names the command's option
    instead."""
    if text := _describe_unsent_row(error):
        return text
    text, setting = str(error), error.setting
    if setting and (option := _OPTIONS.get(setting)):
        if text.startswith(f"{setting} "):
            text = f"{option}{text.removeprefix(setting)}"
        text = text.replace(f" [see {setting}]", f" [see {option}]")
    return escape_controls(text)


def _describe_unsent_row(error: DealkitError) -> str:
    """Describes the error of a row that was not sent, or not to its end, in the words of the command's users. Returns an
    empty string for other errors.
    """
    match error:
        case AlreadyAttemptedError(in_flight=True):
            return "Not sent: another import is sending this row now. Wait until it has ended, then repeat the command."
        case AlreadyAttemptedError(outcome="unknown"):
            details = [
                *([f"status {error.status_code}"] if error.status_code else []),
                *([f"request id {escape_controls(error.request_id)}"] if error.request_id else []),
            ]
            request = f" ({', '.join(details)})" if details else ""
            return (
                f"Not sent again: the row was sent earlier{request}, and its agent may exist. Ask the service's operator to look up "
                "the agent."
            )
        case DealkitError(kind="cancelled", outcome="unknown"):
            return "The command was stopped before the response to this row arrived. The agent may exist."
        case DealkitError(kind="cancelled", outcome="not_sent" | "rejected"):
            return "The command was stopped before this row was sent."
    return ""


def format_error_with_advice(error: DealkitError) -> str:
    """Formats an error's message and the action to take."""
    match error:
        case LedgerError():
            advice = _LEDGER_ADVICE.get(error.reason)
        case ConfigError() | ServiceKeyError():
            advice = _SETTING_ADVICE.get(error.setting or "")
        case APIConnectionError(kind="connect" | "interrupted"):
            advice = _CONNECTION_ADVICE
        case _:
            advice = _ADVICE.get(type(error))
    return f"{format_error(error)}\n{advice}" if advice else format_error(error)


def to_command_error(error: DealkitError | sqlite3.Error) -> CommandError:
    """Converts an error to the exception that ends the command."""
    if isinstance(error, DealkitError):
        return CommandError(format_error_with_advice(error), exit_code_for(error))
    # The command stores large data in a temporary SQLite database, whose file cannot be written.
    return CommandError(
        f"A temporary file cannot be written. Free some space on the disk, then repeat the command. (Reason: {error})",
        UNWRITABLE,
    )


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
