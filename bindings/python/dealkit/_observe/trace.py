"""OpenTelemetry, if the program uses it: a client span for each call, and the headers that propagate its trace.

No part of it is imported before the program imports it: until then, nobody can have set a provider or a span.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from dealkit import __version__
from dealkit._observe.log import guarded

if TYPE_CHECKING:
    from typing import Any

    # A call's method, template, host and port.
    Description = tuple[str, str, str, int]


# The attributes of a span that are known when its call ends.
_AT_THE_END = frozenset(
    ("http.response.status_code", "error.type", "dealkit.outcome", "dealkit.request_id", "dealkit.wait")
)

# The fields of an event that its span has as attributes.
_OF_SPAN = frozenset(("message", "http.request.method", "url.template"))


def _attributes(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and name not in _OF_SPAN}


@lru_cache(1)
def _tracer(provider: Any) -> Any:
    return provider.get_tracer("dealkit", __version__)


@guarded
def start(description: Description) -> tuple[Any, list[tuple[str, str]]] | None:
    """Starts the span of a call, and returns it with the headers that identify it; None if the program does not trace.

    The headers are those of the program's propagator, without the baggage of the program's context: it may be personal data,
    and is meant for the program's own services.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    method, template, *_ = description
    names = ("http.request.method", "url.template", "server.address", "server.port")
    span = _tracer(trace.get_tracer_provider()).start_span(
        f"{method} {template}", kind=trace.SpanKind.CLIENT, attributes=dict(zip(names, description, strict=True))
    )
    if not span.get_span_context().is_valid:
        return None
    from opentelemetry import baggage
    from opentelemetry.propagate import inject

    headers: dict[str, str] = {}
    inject(headers, baggage.clear(trace.set_span_in_context(span)))
    return span, [*headers.items()]


def is_suppressed() -> bool:
    """Returns whether the program has suppressed instrumentation here, as exporters do for their own requests."""
    context: Any = sys.modules.get("opentelemetry.context")
    keys = ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
    return any(context.get_value(key) for name in keys if (key := getattr(context, name, None)) is not None)


@guarded
def add(span: Any, at: int, fields: dict[str, Any]) -> None:
    """Adds what was traced at this time, in nanoseconds since 1970, to the span of a call."""
    span.add_event(fields["message"], _attributes(fields), timestamp=at)
    if "dealkit.unreadable" in fields:
        span.set_attribute("dealkit.unreadable", fields["dealkit.unreadable"])


@guarded
def end(span: Any, fields: dict[str, Any]) -> None:
    """Ends the span of a call with the fields that were traced when the call ended."""
    attempts, error = fields["dealkit.attempts"] or 1, fields["error.type"]
    span.set_attributes({name: value for name, value in _attributes(fields).items() if name in _AT_THE_END})
    if attempts > 1:
        span.set_attribute("http.request.resend_count", attempts - 1)
    if error is not None:
        code = sys.modules["opentelemetry.trace"].StatusCode.ERROR
        span.set_status(code, f"{error}, outcome {fields['dealkit.outcome']}")
    span.end()
