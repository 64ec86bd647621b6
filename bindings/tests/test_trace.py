"""OpenTelemetry: a client span for each call, whose context is sent with the request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import RETRIEVERS, http_response
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from processes import Peer, start_python, wait_for_success

from dealkit import Client
from dealkit._observe.trace import start
from dealkit.testing import Sandbox

KEY = "k-c4n4ry"
ID = "c4n4ryP3rson"
ADA: dict[str, Any] = {"email": f"{ID}@example.com", "first_name": ID, "last_name": ID, "profile": {"tier": ID}}
DEAL = http_response(200, json.dumps({"id": ID}), {"x-request-id": "r-1"})


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Collects every span that has ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The API lets a program set the provider only once.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def sent(request: bytes, name: str) -> str | None:
    """The value of a header that was sent."""
    found = re.search(rb"(?mi)^%s: (.*)\r$" % name.encode(), request)
    return found and found[1].decode()


def named(span: ReadableSpan | Event) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_of(request: bytes) -> tuple[str, str]:
    """The ids of the trace and the span that a request names as its parent."""
    _, trace_id, span_id, _ = (sent(request, "traceparent") or "").split("-")
    return trace_id, span_id


def ids(span: Any) -> tuple[str, str]:
    context = span.get_span_context()
    return format(context.trace_id, "032x"), format(context.span_id, "016x")


def test_a_span_counts_what_could_not_be_read(peer: Any, exporter: InMemorySpanExporter) -> None:
    with Client(base_url=peer(http_response(200, json.dumps({"id": ID, "status": 1}))).url, service_key=KEY) as client:
        client.deals.retrieve(ID, on_unreadable="skip")
    (span,) = exporter.get_finished_spans()
    assert named(span)["dealkit.unreadable"] == 1 and ID not in str(named(span))


@pytest.mark.parametrize("way", RETRIEVERS)
def test_a_span_for_each_call(way: str, peer: Any, exporter: InMemorySpanExporter) -> None:
    server: Peer = peer(DEAL)
    with trace.get_tracer_provider().get_tracer("program").start_as_current_span("outer") as outer:
        RETRIEVERS[way](server.url, ID, 2, service_key=KEY)
    *spans, _ = exporter.get_finished_spans()
    template = "/v1/{}/{}" if way.startswith("request") else "/v1/deals/{id}"
    for span in spans:
        assert (span.name, span.kind) == (f"GET {template}", trace.SpanKind.CLIENT)
        assert span.parent is not None and span.parent.span_id == outer.get_span_context().span_id
        assert span.status.status_code is trace.StatusCode.UNSET
        attributes = named(span)
        assert attributes.pop("dealkit.wait") >= 0
        (event,) = span.events
        assert event.name == "attempt ended" and span.start_time <= event.timestamp <= (span.end_time or 0)  # type: ignore[operator]
        assert attributes == {
            "http.request.method": "GET",
            "url.template": template,
            "server.address": "127.0.0.1",
            "server.port": int(server.url.rpartition(":")[2]),
            "http.response.status_code": 200,
            "dealkit.outcome": "succeeded",
            "dealkit.request_id": "r-1",
        }
    # Each request is a child of its own call.
    assert sorted(map(ids, spans)) == sorted(map(parent_of, server.requests)) and len(spans) == 2
    assert {ids(span)[0] for span in spans} == {ids(outer)[0]}
    text = "".join(span.to_json() for span in spans)
    assert ID not in text and KEY not in text


@pytest.mark.parametrize("way", RETRIEVERS)
def test_baggage_is_not_sent_unless_it_is_passed(way: str, peer: Any, exporter: InMemorySpanExporter) -> None:
    server: Peer = peer(DEAL)
    token = context.attach(baggage.set_baggage("customer.email", f"{ID}@example.com"))
    try:
        RETRIEVERS[way](server.url, "d", 1, service_key=KEY)
        RETRIEVERS[way](server.url, "d", 1, extra_headers={"Baggage": "tenant=7"}, service_key=KEY)
    finally:
        context.detach(token)
    assert [sent(request, "baggage") for request in server.requests] == [None, "tenant=7"]
    assert all(
        ids(span) == parent_of(request)
        for span, request in zip(exporter.get_finished_spans(), server.requests, strict=True)
    )
    assert ID.encode() not in b"".join(server.requests)


@pytest.mark.parametrize("way", RETRIEVERS)
def test_suppressed_instrumentation_is_honoured(way: str, peer: Any, exporter: InMemorySpanExporter) -> None:
    server: Peer = peer(DEAL)
    for key in (context._SUPPRESS_INSTRUMENTATION_KEY, context._SUPPRESS_HTTP_INSTRUMENTATION_KEY):
        token = context.attach(context.set_value(key, True))
        try:
            RETRIEVERS[way](server.url, "d", 1, service_key=KEY)
        finally:
            context.detach(token)
    assert [sent(request, "traceparent") for request in server.requests] == [None] * 2
    assert exporter.get_finished_spans() == ()


OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("way", RETRIEVERS)
def test_a_traceparent_of_the_caller_s_wins(way: str, peer: Any, exporter: InMemorySpanExporter) -> None:
    server: Peer = peer(DEAL)
    RETRIEVERS[way](server.url, ID, 2, extra_headers={"TraceParent": OWN}, service_key=KEY)
    assert [sent(request, "traceparent") for request in server.requests] == [OWN] * 2
    assert len(exporter.get_finished_spans()) == 2


def test_an_observer_that_raises_costs_no_outcome(
    dealkit_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(SimpleSpanProcessor):
        def on_start(self, *given: Any, **named: Any) -> None:
            raise LookupError("at the start")

        def on_end(self, span: ReadableSpan) -> None:
            raise LookupError("at the end")

    class BrokenAtTheEnd(Broken):
        def on_start(self, *given: Any, **named: Any) -> None:
            pass

    for of_class, text in ((Broken, "at the start"), (BrokenAtTheEnd, "at the end")):
        provider = TracerProvider()
        provider.add_span_processor(of_class(InMemorySpanExporter()))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda provider=provider: provider)
        with Client(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key) as client:
            assert client.agents.create(**ADA).id
        assert f"LookupError: {text}" in capsys.readouterr().err


def test_what_a_propagator_writes_cannot_break_a_call(
    peer: Any, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inject(carrier: dict[str, str], context: Any) -> None:
        carrier.update({"a b": "c", "good": "1", "host": "other", "bad": "x\r\ny: z"})

    monkeypatch.setattr("opentelemetry.propagate.inject", inject)
    server: Peer = peer(DEAL)
    with Client(base_url=server.url, service_key=KEY) as client:
        client.deals.retrieve(ID)
    (request,) = server.requests
    assert sent(request, "good") == "1" and sent(request, "y") is None
    assert sent(request, "host") == server.url.partition("//")[2]


def test_without_a_provider_there_is_no_span(peer: Any) -> None:
    server: Peer = peer(DEAL)
    with Client(base_url=server.url, service_key=KEY) as client:
        client.deals.retrieve(ID)
    assert sent(server.requests[0], "traceparent") is None
    assert start(("GET", "/", "h", 1)) is None


def test_nothing_of_it_is_imported(dealkit_sandbox: Sandbox) -> None:
    code = """
import sys
from dealkit import Client
with Client() as client:
    client.deals.retrieve("d_1")
print([name for name in sys.modules if "opentelemetry" in name])
"""
    assert wait_for_success(start_python(code, url=dealkit_sandbox.url)) == "[]\n"
