"""Calls that are watched: by the log of the program, by OpenTelemetry's spans and metrics, or by several of them.

Each call is logged and measured, and its span ended, where it was made: that is where the program's own context is the right one.
"""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.failure import unwrap
from dealkit._observe import log, metrics, trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from dealkit._observe.trace import Description


class Watched:
    """A call that is watched."""

    __slots__ = ("_began", "_description", "_end", "_level", "_meter", "_span", "native")

    def __init__(
        self,
        level: int,
        description: Description,
        meter: metrics.Meter | None,
        span: Any,
        headers: list[tuple[str, str]],
    ) -> None:
        self.native = unwrap(_native.watch(headers))
        self._level, self._description, self._meter, self._span = level, description, meter, span
        self._began = monotonic()
        # What was traced when the call ended, and its level.
        self._end: tuple[int, dict[str, Any]] | None = None
        self._count(1)

    def _count(self, calls: int) -> None:
        if self._meter is not None:
            self._meter.count(calls)

    def flush(self) -> None:
        """Reports what has been traced since the last time."""
        for level, at, fields in unwrap(self.native.take()):
            if "dealkit.outcome" in fields:
                # Not reported yet: reading the response, which comes afterwards, may fail.
                self._end = level, fields
                continue
            self._report(level, fields)
            if self._span is not None:
                trace.add(self._span, at, fields)

    def _report(self, level: int, fields: dict[str, Any]) -> None:
        if level >= self._level:
            log.write(level, fields)
        if self._meter is not None:
            self._meter.add(fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.flush()
        if self._end is None and (error is None or getattr(error, "kind", None) in ("already_attempted", "ledger")):
            self.forget()  # A ledger has answered, and nothing was sent.
        else:
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        """The call has ended, with this exception if there is one."""
        self.flush()
        self._count(-1)
        level, fields = self._end or self._cancelled(error)
        if error is not None and fields["error.type"] is None:
            from dealkit.exceptions import DecodeError

            if isinstance(error, DecodeError):
                level = log.WARNING
                fields |= {"error.type": "decode", "dealkit.outcome": error.outcome}
        operation = fields["http.request.method"], fields["url.template"]
        fields["dealkit.effect"] = fields["error.type"] and _native.EFFECTS.get((*operation, fields["dealkit.outcome"]))
        self._report(level, fields)
        if self._span is not None:
            trace.end(self._span, fields)

    def forget(self) -> None:
        """The call is not made after all."""
        self._count(-1)

    def _cancelled(self, error: BaseException | None) -> tuple[int, dict[str, Any]]:
        """What the native half would trace for a cancelled call, if it has not done so yet."""
        method, template, *_ = self._description
        # For a create that was given up, it is known how far it had got.
        outcome = getattr(error, "outcome", "unknown")
        may_have_acted = outcome in ("unknown", "succeeded") and method not in ("GET", "HEAD", "OPTIONS", "TRACE")
        return log.WARNING if may_have_acted else log.INFO, {
            "http.request.method": method,
            "url.template": template,
            "http.response.status_code": None,
            "error.type": "cancelled",
            "dealkit.outcome": outcome,
            "dealkit.request_id": None,
            "dealkit.attempts": getattr(error, "attempts", None),
            "dealkit.duration": monotonic() - self._began,
            "dealkit.wait": None,
            "dealkit.retries_left": None,
        }


class _Unwatched:
    """A call that nobody watches."""

    __slots__ = ()

    native = flush = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


_UNWATCHED = _Unwatched()


def begin(describe: Callable[[], Any]) -> Watched | _Unwatched:
    """Begins to watch a call, if anybody is watching; ``describe`` gives its method, template, host and port."""
    level = log.level()
    if level == log.NEVER and "opentelemetry" not in sys.modules:
        return _UNWATCHED
    description = unwrap(describe())
    meter, span, headers = None, None, []
    if not trace.is_suppressed():
        meter = metrics.of(description)
        span, headers = trace.start(description) or (None, [])
    if span is None and meter is None and level == log.NEVER:
        return _UNWATCHED
    return Watched(level, description, meter, span, headers)
