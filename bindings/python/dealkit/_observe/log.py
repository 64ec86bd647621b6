"""The logger ``dealkit``: one record for each call when it ends, at WARNING if it failed, and one for each retry."""

from __future__ import annotations

import sys

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

INFO = 20
WARNING = 30
NEVER = 255


def level() -> int:
    """The lowest level that is read: INFO, WARNING, or NEVER if nobody reads any."""
    logger = _logger()
    # Without a handler, Python itself would write warnings to standard error.
    if logger is None or not logger.isEnabledFor(WARNING) or not logger.hasHandlers():
        return NEVER
    return INFO if logger.isEnabledFor(INFO) else WARNING


def write(level: int, fields: dict[str, Any]) -> None:
    """Logs what the native half has traced; its names become attributes of the record, with underscores for dots."""
    logger = _logger()
    if logger is None:
        return
    what = _retry_text(fields) if "dealkit.wait" in fields else _call_text(fields)
    extra = {name.replace(".", "_"): value for name, value in fields.items() if name != "message"}
    try:
        logger.log(level, "%s %s: %s", fields["http.request.method"], fields["url.template"], what, extra=extra)
    except Exception:
        # If a filter or handler of the program raises, the outcome of the call must not be lost.
        report()


def report() -> None:
    """Reports that an observer of the program has raised the current exception, in the way that logging does."""
    import traceback

    logging = sys.modules.get("logging")
    if getattr(logging, "raiseExceptions", True) and sys.stderr is not None:
        traceback.print_exc()


def _logger() -> logging.Logger | None:
    # A program that has not imported logging cannot have set it up.
    logging = sys.modules.get("logging")
    return None if logging is None else logging.getLogger("dealkit")


def _result(fields: dict[str, Any]) -> str:
    """The status, the kind of failure, or both: ``200``, ``connect``, ``200 decode``."""
    status, error = fields["http.response.status_code"], fields["error.type"]
    found = [str(one) for one in (status, error) if one is not None]
    return found[0] if found[0] == found[-1] else " ".join(found)


def _call_text(fields: dict[str, Any]) -> str:
    attempts, request_id = fields["dealkit.attempts"] or 0, fields["dealkit.request_id"]
    count = f", {attempts} attempts" if attempts > 1 else ""
    reference = f" [request id {request_id}]" if request_id else ""
    return f"{_result(fields)} in {fields['dealkit.duration']:.3f} s{count}{reference}"


def _retry_text(fields: dict[str, Any]) -> str:
    return f"{_result(fields)}, retry {fields['http.request.resend_count']} in {fields['dealkit.wait']:.3f} s"
