"""Observers of calls, which write to the application's log and to OpenTelemetry's spans and metrics.

An observer runs in the thread or task that makes the call, because the application's context variables are set there.
"""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.errors import unwrap
from dealkit._observe import log, metrics, trace

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any, Self

DEBUG = 10
INFO = 20
WARNING = 30
NEVER = 255
"""A level above all others, for an application that reads no log records."""


class CallObserver:
    """Reports the trace events of one call."""

    __slots__ = ("_attributes", "_end_event", "_logger", "_min_level", "_meter", "_span", "_started_at", "trace")

    def __init__(
        self,
        *,
        logger: logging.Logger | None,
        min_level: int,
        attributes: dict[str, Any],
        meter: metrics.Meter | None,
        span: Any,
        headers: list[tuple[str, str]],
    ) -> None:
        self.trace = unwrap(_native.start_trace(headers))
        """The native object that collects the call's events."""
        self._logger, self._min_level, self._attributes = logger, min_level, attributes
        self._meter, self._span = meter, span
        self._started_at = monotonic()
        # The level and the fields of the event at the end of the call, once native code has reported it.
        self._end_event: tuple[int, dict[str, Any]] | None = None
        self._change_in_flight_count(1)

    def _change_in_flight_count(self, change: int) -> None:
        if self._meter is not None:
            self._meter.change_in_flight_count(change)

    def flush(self) -> None:
        """Reports the events since the last flush."""
        for event in unwrap(self.trace.take()):
            if "dealkit.outcome" in event.fields:
                # `end` reports this event, because the outcome may still change: the response is read only after this
                # event.
                self._end_event = event.level, event.fields
                continue
            self._report(event.level, event.fields)
            if self._span is not None:
                trace.add_event(self._span, event.timestamp, event.fields)

    def _report(self, level: int, fields: dict[str, Any]) -> None:
        if level >= self._min_level and self._logger is not None:
            log.write_record(self._logger, level, fields)
        if self._meter is not None:
            self._meter.add(fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.flush()
        if self._end_event is None and (
            error is None or getattr(error, "kind", None) in ("already_attempted", "idempotency_key_reused", "ledger")
        ):
            self.discard()  # Nothing was sent: the ledger had the result, or could not be used.
        else:
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        """Reports the end of the call, and its exception if it has failed."""
        self.flush()
        self._change_in_flight_count(-1)
        level, fields = self._end_event or self._make_cancelled_event(error)
        if error is not None and fields["error.type"] is None:
            from dealkit.exceptions import DecodeError

            if isinstance(error, DecodeError):
                level = WARNING
                fields |= {"error.type": "decode", "dealkit.outcome": error.outcome}
        operation = fields["http.request.method"], fields["url.template"]
        fields["dealkit.effect"] = fields["error.type"] and _native.EFFECTS.get((*operation, fields["dealkit.outcome"]))
        self._report(level, fields)
        if self._span is not None:
            trace.end_span(self._span, fields)

    def discard(self) -> None:
        """Ends the observer of a call that was not sent, without a report."""
        self._change_in_flight_count(-1)

    def _make_cancelled_event(self, error: BaseException | None) -> tuple[int, dict[str, Any]]:
        """Makes the final event of a cancelled call. The native core reports no such event."""
        method = self._attributes["http.request.method"]
        # The error of a cancelled create says how far the call got.
        outcome = getattr(error, "outcome", "unknown")
        may_have_acted = outcome in ("unknown", "succeeded") and method not in ("GET", "HEAD", "OPTIONS", "TRACE")
        return WARNING if may_have_acted else INFO, {
            "http.request.method": method,
            "url.template": self._attributes["url.template"],
            "http.response.status_code": None,
            "error.type": "cancelled",
            "dealkit.outcome": outcome,
            "dealkit.request_id": None,
            "dealkit.attempts": getattr(error, "attempts", None),
            "dealkit.duration": monotonic() - self._started_at,
            "dealkit.wait": None,
            "dealkit.retries_left": None,
        }


class _NoObserver:
    """The observer of calls in an application that uses neither the log nor OpenTelemetry. It does nothing."""

    __slots__ = ()

    trace = flush = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception_details: object) -> None:
        pass


_NO_OBSERVER = _NoObserver()


def _find_logger() -> tuple[logging.Logger | None, int]:
    """Returns the logger ``dealkit`` and the lowest level that the application reads."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None, NEVER  # Nothing has imported logging, so no logger is configured.
    logger = logging.getLogger("dealkit")
    # For a logger without handlers, Python itself would write warnings to standard error.
    if not logger.isEnabledFor(WARNING) or not logger.hasHandlers():
        return logger, NEVER
    return logger, next(level for level in (DEBUG, INFO, WARNING) if logger.isEnabledFor(level))


def may_be_observed() -> bool:
    """Returns whether the application may read the log or use OpenTelemetry. If not, ``observe_call`` observes
    nothing."""
    return "opentelemetry" in sys.modules or _find_logger()[1] != NEVER


def observe_call(describe: Callable[[], Any]) -> CallObserver | _NoObserver:
    """Makes the observer of a call. It does nothing unless the application reads the log or uses OpenTelemetry.

    ``describe`` returns the call's OpenTelemetry attributes: method, URL template, host and port.
    """
    logger, min_level = _find_logger()
    if min_level == NEVER and "opentelemetry" not in sys.modules:
        return _NO_OBSERVER
    attributes = unwrap(describe())
    meter, span, headers = None, None, []
    if not trace.is_suppressed():
        meter = metrics.make_meter(attributes)
        span, headers = trace.start_span(attributes) or (None, [])
    if span is None and meter is None and min_level == NEVER:
        return _NO_OBSERVER
    return CallObserver(
        logger=logger, min_level=min_level, attributes=attributes, meter=meter, span=span, headers=headers
    )
