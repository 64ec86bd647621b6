"""Metrics for OpenTelemetry.

This module never imports OpenTelemetry. It uses OpenTelemetry's modules if the application has imported them.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from dealkit import __version__
from dealkit._observe.log import guarded

if TYPE_CHECKING:
    from typing import Any

# Bucket boundaries in seconds, from OpenTelemetry's semantic conventions.
_DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class _Instruments:
    def __init__(self, meter: Any) -> None:
        self.duration = meter.create_histogram(
            "http.client.request.duration",
            "s",
            "Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self.attempts = meter.create_counter(
            "dealkit.client.attempts", "{attempt}", "Attempts, by the number of earlier attempts of the same call."
        )
        self.calls = meter.create_counter("dealkit.client.calls", "{call}", "Calls that have ended, by outcome.")
        self.wait_time = meter.create_counter(
            "dealkit.client.wait", "s", "Time that calls have waited to be sent, or to be sent again."
        )
        self.unreadable = meter.create_counter(
            "dealkit.client.unreadable", "{field}", "Fields of responses that could not be read and were skipped."
        )
        self.retries_left = meter.create_gauge(
            "dealkit.client.retries_left", "{retry}", "Retries that the client's quota allows."
        )
        self.in_flight = meter.create_up_down_counter(
            "dealkit.client.in_flight", "{call}", "Calls in flight, including those that wait to be sent."
        )


@lru_cache(1)
@guarded
def _instruments(provider: Any) -> _Instruments | None:
    # The default providers of OpenTelemetry's API discard all measurements.
    is_default = type(provider).__module__.startswith("opentelemetry.metrics")
    return None if is_default else _Instruments(provider.get_meter("dealkit", __version__))


class Meter:
    """Measures calls of one operation."""

    __slots__ = ("_attributes", "_instruments", "_server_attributes")

    def __init__(self, instruments: _Instruments, attributes: dict[str, Any]) -> None:
        self._instruments = instruments
        self._attributes = attributes
        self._server_attributes = {name: attributes[name] for name in ("server.address", "server.port")}

    @guarded
    def change_in_flight_count(self, change: int) -> None:
        """Adds ``change`` to the number of calls in flight."""
        self._instruments.in_flight.add(change, self._attributes)

    @guarded
    def add(self, fields: dict[str, Any]) -> None:
        """Measures a trace event: the end of an attempt or of a call, or the reading of a response."""
        instruments = self._instruments
        error_attributes = {} if fields.get("error.type") is None else {"error.type": fields["error.type"]}
        if "dealkit.unreadable" in fields:
            instruments.unreadable.add(fields["dealkit.unreadable"], self._attributes)
        elif "dealkit.outcome" in fields:
            instruments.wait_time.add(fields["dealkit.wait"] or 0, self._attributes)
            instruments.calls.add(
                1, self._attributes | error_attributes | {"dealkit.outcome": fields["dealkit.outcome"]}
            )
            if (retries_left := fields["dealkit.retries_left"]) is not None:
                instruments.retries_left.set(retries_left, self._server_attributes)
        elif "dealkit.attempt" in fields:
            instruments.attempts.add(1, self._attributes | {"http.request.resend_count": fields["dealkit.attempt"] - 1})
            status = fields["http.response.status_code"]
            status_attributes = {} if status is None else {"http.response.status_code": status}
            instruments.duration.record(
                fields["dealkit.duration"], self._attributes | error_attributes | status_attributes
            )


def make_meter(attributes: dict[str, Any]) -> Meter | None:
    """Makes a meter for calls with these attributes. Returns None if the application has not set up metrics."""
    metrics = sys.modules.get("opentelemetry.metrics")
    instruments = None if metrics is None else _instruments(metrics.get_meter_provider())
    return None if instruments is None else Meter(instruments, attributes)
