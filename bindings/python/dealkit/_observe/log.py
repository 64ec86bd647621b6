"""Writes log records to the logger ``dealkit``.

There is one record at the end of each call, at level WARNING if the call failed. There is one for each retry, and one
for each pause of all calls. There is one at level INFO for each response with unreadable fields that were skipped, and
one at level DEBUG for the last attempt of each call.

``DEALKIT_LOG`` is the environment variable that has these records written to standard error.
"""

from __future__ import annotations

import sys
from functools import wraps
from os import environ
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

# The shortest wait, in seconds, that messages mention.
_MIN_SHOWN_WAIT = 0.01


_LOG_VARIABLE = "DEALKIT_LOG"
_LOG_FORMAT = "[%(asctime)s - %(name)s - %(levelname)s - %(filename)s:%(lineno)d] %(message)s"
_LOG_LEVELS = ("debug", "info", "warning")


def write_log_to_stderr() -> None:
    """Writes the log to standard error if ``DEALKIT_LOG`` names a level. If the application has handlers of its own, they
    get the records instead.

    Raises:
        ConfigError: The variable names no level.
    """
    level = environ.get(_LOG_VARIABLE, "").lower()
    if not level:
        return
    if level not in _LOG_LEVELS:
        from dealkit.exceptions import ConfigError

        raise ConfigError(f"the environment variable {_LOG_VARIABLE} must be debug, info or warning, or not be set")
    # Imported here, because an application without a log does not need it.
    import logging

    logger = logging.getLogger("dealkit")
    logger.setLevel(level.upper())
    if any(handler.name == _LOG_VARIABLE for handler in logger.handlers):
        return
    handler = logging.StreamHandler()
    handler.name = _LOG_VARIABLE
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    handler.addFilter(lambda record: {*logger.handlers, *logging.getLogger().handlers} == {handler})
    logger.addHandler(handler)


def guarded(function: F) -> F:
    """Decorates a function that calls code of the application, such as a logging filter or a span processor.

    An exception in the application's code must not hide the result of a call. The decorated function therefore prints
    the exception, as the module logging does, and returns None.
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception:
            if getattr(sys.modules.get("logging"), "raiseExceptions", True) and sys.stderr is not None:
                import traceback

                traceback.print_exc()
            return None

    return call  # type: ignore[return-value]


@guarded
def write_record(logger: logging.Logger, level: int, fields: dict[str, Any]) -> None:
    """Logs a trace event. The event's fields become attributes of the log record, with underscores for dots in their
    names."""
    if "dealkit.unreadable" in fields:
        event_text = f"{fields['dealkit.unreadable']} fields could not be read: {fields['dealkit.pointers']}"
    elif "dealkit.outcome" in fields:
        event_text = _format_call_end(fields)
    elif fields["dealkit.delay"] is None:
        event_text = f"attempt {fields['dealkit.attempt']}, {_format_result_and_times(fields)}"
    elif "dealkit.attempt" in fields:
        retry = fields["http.request.resend_count"]
        event_text = f"{_format_result(fields)}, retry {retry} in {fields['dealkit.delay']:.3f} s"
    else:
        event_text = f"{_format_result(fields)}, all calls pause for {fields['dealkit.delay']:.3f} s"
    extra = {name.replace(".", "_"): value for name, value in fields.items() if name != "message"}
    arguments = (fields["http.request.method"], fields["url.template"], event_text)
    logger.log(level, "%s %s: %s", *arguments, extra=extra, stacklevel=find_stack_level())


def find_stack_level() -> int:
    """Returns the ``stacklevel`` with which a log record or a warning names the file and line of the code that called
    dealkit."""
    frame, stack_level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] == "dealkit":
        if frame.f_back is None:
            return 1
        frame, stack_level = frame.f_back, stack_level + 1
    return stack_level


def _format_result(fields: dict[str, Any]) -> str:
    """Formats the status, the kind of error, or both: ``200``, ``connect``, ``200 decode``. A call that found an agent of
    another job has neither."""
    status, error = fields["http.response.status_code"], fields["error.type"]
    parts = [str(part) for part in (status, error) if part is not None] or ["already created"]
    return parts[0] if parts[0] == parts[-1] else " ".join(parts)


def _format_call_end(fields: dict[str, Any]) -> str:
    attempts, request_id = fields["dealkit.attempts"] or 0, fields["dealkit.request_id"]
    attempts_note = f", {attempts} attempts" if attempts > 1 else ""
    request_id_note = f" [request id {request_id}]" if request_id else ""
    effect_note = f"; {fields['dealkit.effect']}" if fields["dealkit.effect"] else ""
    return f"{_format_result_and_times(fields)}{effect_note}{attempts_note}{request_id_note}"


def _format_result_and_times(fields: dict[str, Any]) -> str:
    """Formats the result, its duration, and the time that the call waited to be sent."""
    wait = fields["dealkit.wait"] or 0
    wait_note = f" (waited {wait:.3f} s)" if wait > _MIN_SHOWN_WAIT else ""
    return f"{_format_result(fields)} in {fields['dealkit.duration']:.3f} s{wait_note}"
