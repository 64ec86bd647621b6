"""OpenTelemetry's metrics, if the program uses them.

No part of it is imported before the program imports it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from dealkit import __version__
from dealkit._observe.log import guarded

if TYPE_CHECKING:
    from typing import Any

    from dealkit._observe.trace import Description

# The boundaries that OpenTelemetry's conventions give for durations, in seconds.
_BOUNDARIES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class _Instruments:
    def __init__(self, meter: Any) -> None:
        self.duration = meter.create_histogram(
            "http.client.request.duration",
            "s",
            "Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self.attempts = meter.create_counter(
            "dealkit.client.attempts", "{attempt}", "Attempts, by how many came before them in the same call."
        )
        self.calls = meter.create_counter("dealkit.client.calls", "{call}", "Calls that have ended, by outcome.")
        self.waited = meter.create_counter(
            "dealkit.client.wait", "s", "Time that calls have waited to be sent, or to be sent again."
        )
        self.unreadable = meter.create_counter(
            "dealkit.client.unreadable", "{field}", "Fields of responses that could not be read and were skipped."
        )
        self.retries_left = meter.create_gauge(
            "dealkit.client.retries_left", "{retry}", "Retries that the client's quota allows."
        )
        self.in_flight = meter.create_up_down_counter(
            "dealkit.client.in_flight", "{call}", "Calls in flight, those that wait included."
        )


@lru_cache(1)
@guarded
def _instruments(provider: Any) -> _Instruments | None:
    # The API's own providers measure nothing.
    is_own = type(provider).__module__.startswith("opentelemetry.metrics")
    return None if is_own else _Instruments(provider.get_meter("dealkit", __version__))


class Meter:
    """Measures calls of one operation of a service."""

    __slots__ = ("_instruments", "_of", "_server")

    def __init__(self, instruments: _Instruments, description: Description) -> None:
        self._instruments = instruments
        method, template, address, port = description
        self._server: dict[str, Any] = {"server.address": address, "server.port": port}
        self._of = {"http.request.method": method, "url.template": template, **self._server}

    @guarded
    def count(self, calls: int) -> None:
        """Adds to the calls in flight."""
        self._instruments.in_flight.add(calls, self._of)

    @guarded
    def add(self, fields: dict[str, Any]) -> None:
        """Adds what was traced when an attempt or a call ended, or a response was read."""
        to = self._instruments
        error = {} if fields.get("error.type") is None else {"error.type": fields["error.type"]}
        if "dealkit.unreadable" in fields:
            to.unreadable.add(fields["dealkit.unreadable"], self._of)
        elif "dealkit.outcome" in fields:
            to.waited.add(fields["dealkit.wait"] or 0, self._of)
            to.calls.add(1, self._of | error | {"dealkit.outcome": fields["dealkit.outcome"]})
            if (left := fields["dealkit.retries_left"]) is not None:
                to.retries_left.set(left, self._server)
        elif "dealkit.attempt" in fields:
            to.attempts.add(1, self._of | {"http.request.resend_count": fields["dealkit.attempt"] - 1})
            status = fields["http.response.status_code"]
            answer = {} if status is None else {"http.response.status_code": status}
            to.duration.record(fields["dealkit.duration"], self._of | error | answer)


def of(description: Description) -> Meter | None:
    """What measures the calls of an operation; None if nobody wants to know."""
    metrics = sys.modules.get("opentelemetry.metrics")
    instruments = None if metrics is None else _instruments(metrics.get_meter_provider())
    return None if instruments is None else Meter(instruments, description)
