"""The texts of log records, the spans and the metrics that Python makes of the events of an outage, and other metrics. The events
themselves are tested in Rust (`examples/rust/tests/incident.rs`).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from conftest import ADA, WAYS, answer, run, time_out
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dealkit import APIConnectionError, AsyncClient, Client, InternalServerError, Timeout
from dealkit.testing import Sandbox

DEAL = answer(200, json.dumps({"id": "d_1"}))

# Attributes that every measurement has.
COMMON = ("server.address", "server.port", "url.template")

Measured = Callable[[], dict[str, float]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Returns a function that returns the measured values by name and attributes; for durations, their number."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    # The API lets a program set the provider only once.
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)

    def read() -> dict[str, float]:
        data: Any = reader.get_metrics_data()
        found = {}
        for scope in data.resource_metrics[0].scope_metrics if data else ():
            assert scope.scope.name == "dealkit" and scope.scope.version
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    of = sorted(f"{name}={value}" for name, value in point.attributes.items() if name not in COMMON)
                    assert {"server.address", "server.port"} <= point.attributes.keys()
                    value = point.count if isinstance(point, HistogramDataPoint) else point.value
                    found[" ".join((metric.name, *of))] = value
        return found

    return read


def test_an_outage_in_log_records_spans_and_metrics(
    dealkit_sandbox: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    measured: Measured,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    caplog.set_level(logging.INFO, "dealkit")
    dealkit_sandbox.fail_next(status=429, retry_after=1)
    dealkit_sandbox.fail_next(status=503, times=3, path="/v1/deals/d_2")
    dealkit_sandbox.fail_next(process_then_reset=True, method="POST")
    with Client(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key) as client:
        client.deals.retrieve("d_1")
        with pytest.raises(InternalServerError):
            client.deals.retrieve("d_2")
        begun = monotonic()
        with pytest.raises(APIConnectionError):
            client.agents.create(**ADA)
        took = monotonic() - begun

    told = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    get, post, time, retry = r"GET /v1/deals/{id}: ", "POST /v1/agents: ", r"\d+\.\d{3} s", r"retry \d in \d\.\d{3} s"
    for line, expected in zip(
        told,
        [
            rf"WARNING {get}429, all calls pause for 1\.000 s",
            rf"WARNING {get}429, retry 1 in 1\.000 s",
            rf"INFO {get}200 in {time} \(waited {time}\), 2 attempts \[request id .+\]",
            rf"WARNING {get}503, {retry}",
            rf"WARNING {get}503, {retry}",
            rf"WARNING {get}503 in {time}( \(waited {time}\))?, 3 attempts \[request id .+\]",
            rf"WARNING {post}interrupted in {time}( \(waited {time}\))?; the agent may exist",
        ],
        strict=True,
    ):
        assert re.fullmatch(expected, line), line

    spans = exporter.get_finished_spans()
    told = []
    for span in spans:
        of: Any = span.attributes
        attempts = [
            event.attributes for event in span.events if event.attributes and "dealkit.attempt" in event.attributes
        ]
        told.append(
            " ".join(
                (
                    span.name,
                    *(str(attempt.get("error.type", "fine")) for attempt in attempts),
                    of["dealkit.outcome"],
                    str(span.status.description),
                )
            )
        )
    assert told == [
        "GET /v1/deals/{id} 429 fine succeeded None",
        "GET /v1/deals/{id} 503 503 503 unknown 503, outcome unknown",
        "POST /v1/agents interrupted unknown interrupted, outcome unknown",
    ]
    assert [span.status.status_code is trace.StatusCode.ERROR for span in spans] == [False, True, True]
    assert (spans[1].attributes or {})["http.request.resend_count"] == 2
    first: Any = spans[0]
    assert first.attributes["dealkit.wait"] >= 1 and first.attributes["dealkit.request_id"]

    found = measured()
    waited, left = found.pop("dealkit.client.wait http.request.method=GET"), found.pop("dealkit.client.retries_left")
    assert 1 <= waited and 0 < left < 35
    # A create waits for no other call.
    assert found.pop("dealkit.client.wait http.request.method=POST") < took
    get, post, duration = "http.request.method=GET", "http.request.method=POST", "http.client.request.duration"
    assert found == {
        f"dealkit.client.attempts {get} http.request.resend_count=0": 2,
        f"dealkit.client.attempts {get} http.request.resend_count=1": 2,
        f"dealkit.client.attempts {get} http.request.resend_count=2": 1,
        f"dealkit.client.attempts {post} http.request.resend_count=0": 1,
        f"dealkit.client.calls dealkit.outcome=succeeded {get}": 1,
        f"dealkit.client.calls dealkit.outcome=unknown error.type=503 {get}": 1,
        f"dealkit.client.calls dealkit.outcome=unknown error.type=interrupted {post}": 1,
        f"dealkit.client.in_flight {get}": 0,
        f"dealkit.client.in_flight {post}": 0,
        f"{duration} error.type=429 {get} http.response.status_code=429": 1,
        f"{duration} error.type=503 {get} http.response.status_code=503": 3,
        f"{duration} error.type=interrupted {post}": 1,
        f"{duration} {get} http.response.status_code=200": 1,
    }


def test_the_alerts_are_about_what_is_measured(peer: Any, measured: Measured) -> None:
    with Client(base_url=peer(DEAL).url, service_key="k") as client:
        client.deals.retrieve("d_1")
    names = {name.split()[0].replace(".", "_") for name in measured()}
    rules = (Path(__file__).parents[2] / "docs" / "guide" / "alerts.yml").read_text("utf-8")
    used = set(re.findall(r"\b(?:http|dealkit)_client\w+", rules))
    # Prometheus appends the unit, and what of it is counted.
    assert {re.sub("(_seconds)?(_total|_count)$", "", name) for name in used} < names


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_measured(way: str, peer: Any, measured: Measured) -> None:
    WAYS[way](peer(DEAL).url, "d_1", 2, service_key="k")
    found, get = measured(), "http.request.method=GET"
    assert found[f"dealkit.client.calls dealkit.outcome=succeeded {get}"] == 2
    assert found[f"http.client.request.duration {get} http.response.status_code=200"] == 2
    assert found[f"dealkit.client.in_flight {get}"] == 0


def test_calls_that_wait_are_in_flight(peer: Any, measured: Measured) -> None:
    flight = "dealkit.client.in_flight http.request.method=GET"
    seen = []

    server = peer(b"")

    async def main() -> None:
        async with AsyncClient(
            base_url=server.url, service_key="k", timeout=Timeout(attempt=3600, total=3600)
        ) as client:
            deals = client.deals.retrieve_many(["d_1", "d_2"], concurrency=2)
            await time_out(client.deals.retrieve("d_3"), lambda: server.wait_for_requests(1))
            await time_out(anext(deals), lambda: server.wait_for_requests(3))
            seen.append(measured()[flight])

    run(main())
    assert (
        seen == [0]
        and measured()["dealkit.client.calls dealkit.outcome=unknown error.type=cancelled http.request.method=GET"] == 3
    )
