"""The logger ``dealkit``: one record for each call when it ends, at WARNING if it failed, one for each retry and each pause, at
INFO one for each response of which fields could not be read and were skipped, and at DEBUG one for each last attempt.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

DEBUG = 10
INFO = 20
WARNING = 30
NEVER = 255

# Shorter waits, in seconds, are not worth a word in a text.
_MOMENT = 0.01


def level() -> int:
    """The lowest level that is read: DEBUG, INFO, WARNING, or NEVER if nobody reads any."""
    logger = _logger()
    # Without a handler, Python itself would write warnings to standard error.
    if logger is None or not logger.isEnabledFor(WARNING) or not logger.hasHandlers():
        return NEVER
    return next(level for level in (DEBUG, INFO, WARNING) if logger.isEnabledFor(level))


def guarded(observe: F) -> F:
    """A function that hands something to the program's own code, such as a filter or a processor: if that raises, this is
    reported in the way that logging does, the result is None, and the outcome of the call is not lost.
    """

    @wraps(observe)
    def call(*given: Any) -> Any:
        try:
            return observe(*given)
        except Exception:
            if getattr(sys.modules.get("logging"), "raiseExceptions", True) and sys.stderr is not None:
                import traceback

                traceback.print_exc()
            return None

    return call  # type: ignore[return-value]


@guarded
def write(level: int, fields: dict[str, Any]) -> None:
    """Logs what the native half has traced; its names become attributes of the record, with underscores for dots."""
    logger = _logger()
    if logger is None:
        return
    if "dealkit.unreadable" in fields:
        what = f"{fields['dealkit.unreadable']} fields could not be read: {fields['dealkit.pointers']}"
    elif "dealkit.outcome" in fields:
        what = _call_text(fields)
    elif fields["dealkit.delay"] is None:
        what = f"attempt {fields['dealkit.attempt']}, {_time_text(fields)}"
    elif "dealkit.attempt" in fields:
        what = f"{_result(fields)}, retry {fields['http.request.resend_count']} in {fields['dealkit.delay']:.3f} s"
    else:
        what = f"{_result(fields)}, all calls pause for {fields['dealkit.delay']:.3f} s"
    extra = {name.replace(".", "_"): value for name, value in fields.items() if name != "message"}
    arguments = (fields["http.request.method"], fields["url.template"], what)
    logger.log(level, "%s %s: %s", *arguments, extra=extra, stacklevel=_stack_level())


def _stack_level() -> int:
    """Returns the ``stacklevel`` with which a record names the file and line of the program that made the call."""
    frame, count = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] == "dealkit":
        if frame.f_back is None:
            return 1
        frame, count = frame.f_back, count + 1
    return count


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
    effect = f"; {fields['dealkit.effect']}" if fields["dealkit.effect"] else ""
    return f"{_time_text(fields)}{effect}{count}{reference}"


def _time_text(fields: dict[str, Any]) -> str:
    """The result, how long it took, and how long the call waited, unless that is only a moment."""
    wait = fields["dealkit.wait"] or 0
    waited = f" (waited {wait:.3f} s)" if wait > _MOMENT else ""
    return f"{_result(fields)} in {fields['dealkit.duration']:.3f} s{waited}"
