"""Spans for OpenTelemetry: a client span for each call, and the headers that propagate its trace to the service.

This module imports OpenTelemetry only if the application has imported it. Otherwise, the application cannot have set up
tracing.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from dealkit import __version__
from dealkit._observe.log import guarded

if TYPE_CHECKING:
    from typing import Any

# Attributes that a span gets at the end of its call.
_END_ATTRIBUTES = frozenset(
    ("http.response.status_code", "error.type", "dealkit.outcome", "dealkit.request_id", "dealkit.wait")
)

# Fields of an event that do not become attributes, because the span or the event has them already.
_SPAN_FIELDS = frozenset(("message", "http.request.method", "url.template"))


def _to_attributes(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and name not in _SPAN_FIELDS}


@lru_cache(1)
def _tracer(provider: Any) -> Any:
    return provider.get_tracer("dealkit", __version__)


@guarded
def start_span(attributes: dict[str, Any]) -> tuple[Any, list[tuple[str, str]]] | None:
    """Starts the span of a call. Returns the span and the headers that propagate it, or None if the application does
    not trace.

    The application's propagator makes the headers. They exclude baggage: it is meant for the application's own
    services, and may be personal data.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    name = f"{attributes['http.request.method']} {attributes['url.template']}"
    span = _tracer(trace.get_tracer_provider()).start_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes)
    if not span.get_span_context().is_valid:
        return None
    from opentelemetry import baggage
    from opentelemetry.propagate import inject

    headers: dict[str, str] = {}
    inject(headers, baggage.clear(trace.set_span_in_context(span)))
    return span, [*headers.items()]


def is_suppressed() -> bool:
    """Returns whether instrumentation is suppressed in this context, as exporters do for their own requests."""
    context: Any = sys.modules.get("opentelemetry.context")
    keys = ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
    return any(context.get_value(key) for name in keys if (key := getattr(context, name, None)) is not None)


@guarded
def add_event(span: Any, timestamp: int, fields: dict[str, Any]) -> None:
    """Adds an event to a span. The timestamp is in nanoseconds since 1970."""
    span.add_event(fields["message"], _to_attributes(fields), timestamp=timestamp)
    if "dealkit.unreadable" in fields:
        span.set_attribute("dealkit.unreadable", fields["dealkit.unreadable"])


@guarded
def end_span(span: Any, fields: dict[str, Any]) -> None:
    """Ends the span of a call. ``fields`` are from the event at the end of the call."""
    attempts, error = fields["dealkit.attempts"] or 1, fields["error.type"]
    span.set_attributes({name: value for name, value in _to_attributes(fields).items() if name in _END_ATTRIBUTES})
    if attempts > 1:
        span.set_attribute("http.request.resend_count", attempts - 1)
    if error is not None:
        code = sys.modules["opentelemetry.trace"].StatusCode.ERROR
        span.set_status(code, f"{error}, outcome {fields['dealkit.outcome']}")
    span.end()
