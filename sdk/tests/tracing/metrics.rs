//! Metrics, as the meter provider of the program exports them. The provider is the one of the process, so each test looks only at
//! the measurements of its own service.

use std::{collections::BTreeMap, sync::OnceLock};

use dealkit::Unreadable;
use futures_util::FutureExt as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData},
};

use crate::peer::{AGENT, Peer, ada, immediate_retries};

/// Sets the meter provider of the process, once.
fn provider() -> &'static (SdkMeterProvider, InMemoryMetricExporter) {
    static PROVIDER: OnceLock<(SdkMeterProvider, InMemoryMetricExporter)> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        global::set_meter_provider(provider.clone());
        (provider, exporter)
    })
}

/// Returns the measurements of the service at this port: the name with the attributes, except the server's, and the value. For a
/// histogram, the value is the count. Seconds, which differ in each run, are 0.
fn measurements(port: &str) -> BTreeMap<String, f64> {
    let (provider, exporter) = provider();
    provider.force_flush().unwrap();
    let all_metrics = exporter.get_finished_metrics().unwrap();
    let latest = all_metrics.last().unwrap();
    let server = vec![
        "server.address=127.0.0.1".to_owned(),
        format!("server.port={port}"),
    ];
    let mut found = BTreeMap::new();
    let mut add = |name: &str, attributes: Vec<&KeyValue>, value: f64| {
        let text = |attribute: &KeyValue| format!("{}={}", attribute.key, attribute.value);
        let mut attributes: Vec<_> = attributes.into_iter().map(text).collect();
        attributes.sort();
        let (own, others): (Vec<_>, Vec<_>) = attributes
            .into_iter()
            .partition(|attribute| attribute.starts_with("server."));
        if own == server {
            found.insert([vec![name.to_owned()], others].concat().join(" "), value);
        }
    };
    for metric in latest.scope_metrics().flat_map(|scope| scope.metrics()) {
        let name = metric.name();
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    add(name, point.attributes().collect(), point.value() as f64);
                }
            }
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    add(name, point.attributes().collect(), point.value() as f64);
                }
            }
            AggregatedMetrics::F64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    assert!(point.value() >= 0.0);
                    add(name, point.attributes().collect(), 0.0);
                }
            }
            AggregatedMetrics::U64(MetricData::Gauge(gauge)) => {
                for point in gauge.data_points() {
                    add(name, point.attributes().collect(), point.value() as f64);
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    assert_eq!(point.bounds().count(), 14);
                    add(name, point.attributes().collect(), point.count() as f64);
                }
            }
            _ => panic!("{name} has another kind"),
        }
    }
    found
}

#[tokio::test]
async fn calls_and_attempts_are_measured() {
    provider();
    let mut peer = Peer::manual();
    let port = peer.url.rsplit(':').next().unwrap().to_owned();
    let client = peer.builder().retry(immediate_retries()).build().unwrap();
    // A retry, then a deal with fields that cannot be read.
    let retrieve = client.deals().retrieve("d_1").unreadable(Unreadable::Skip);
    let (deal, ()) = tokio::join!(retrieve.into_future(), async {
        peer.next().await.answer(503, "");
        let body = r#"{"id": "d_1", "status": 5, "phase": 6}"#;
        peer.next().await.answer(200, body);
    });
    deal.unwrap();
    // A create that is in flight, an outcome that is unknown, and a call that is not sent.
    let mut create = client.agents().create(ada()).into_future();
    let held = peer.next_during(&mut create).await;
    let in_flight = "dealkit.client.in_flight http.request.method=POST url.template=/v1/agents";
    assert_eq!(measurements(&port)[in_flight], 1.0);
    held.answer(503, "");
    create.await.unwrap_err();
    client.deals().retrieve("..").await.unwrap_err();
    // A create that is cancelled after it was sent.
    let mut create = client.agents().create(ada()).into_future();
    let held = peer.next_during(&mut create).await;
    assert!((&mut create).now_or_never().is_none());
    drop(create);
    held.try_answer(201, &[], AGENT);

    let mut found = measurements(&port);
    let retries_left = found.remove("dealkit.client.retries_left").unwrap();
    assert!(retries_left > 0.0);
    let expected = [
        (
            "dealkit.client.attempts GET http.request.resend_count=0 DEAL",
            1.0,
        ),
        (
            "dealkit.client.attempts GET http.request.resend_count=1 DEAL",
            1.0,
        ),
        (
            "dealkit.client.attempts POST http.request.resend_count=0 AGENTS",
            1.0,
        ),
        (
            "dealkit.client.calls dealkit.outcome=not_sent error.type=validation GET DEAL",
            1.0,
        ),
        (
            "dealkit.client.calls dealkit.outcome=succeeded GET DEAL",
            1.0,
        ),
        (
            "dealkit.client.calls dealkit.outcome=unknown error.type=503 POST AGENTS",
            1.0,
        ),
        (
            "dealkit.client.calls dealkit.outcome=unknown error.type=cancelled POST AGENTS",
            1.0,
        ),
        ("dealkit.client.in_flight GET DEAL", 0.0),
        ("dealkit.client.in_flight POST AGENTS", 0.0),
        ("dealkit.client.unreadable GET DEAL", 2.0),
        ("dealkit.client.wait GET DEAL", 0.0),
        ("dealkit.client.wait POST AGENTS", 0.0),
        (
            "http.client.request.duration GET http.response.status_code=200 DEAL",
            1.0,
        ),
        (
            "http.client.request.duration error.type=503 GET http.response.status_code=503 DEAL",
            1.0,
        ),
        (
            "http.client.request.duration error.type=503 POST http.response.status_code=503 AGENTS",
            1.0,
        ),
    ];
    let expand = |line: &str| {
        line.replace("GET", "http.request.method=GET")
            .replace("POST", "http.request.method=POST")
            .replace("DEAL", "url.template=/v1/deals/{id}")
            .replace("AGENTS", "url.template=/v1/agents")
    };
    let expected = expected.map(|(line, value)| (expand(line), value));
    assert_eq!(found, BTreeMap::from(expected));
}
