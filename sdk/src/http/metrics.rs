//! What is measured of calls, through OpenTelemetry's API. `_observe/metrics.py` measures the same in Python.

use std::time::Duration;

use opentelemetry::{
    InstrumentationScope, KeyValue, global,
    metrics::{Counter, Gauge, Histogram, UpDownCounter},
};

use url::Url;

use crate::http::{call_progress::AttemptTimes, operation::Operation, outcome::Outcome};

/// The boundaries that OpenTelemetry's conventions give for durations, in seconds.
const BOUNDARIES: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// The instruments of a client, from the provider that the program had set when the client was built.
#[derive(Debug)]
pub(crate) struct Metrics {
    duration: Histogram<f64>,
    attempts: Counter<u64>,
    calls: Counter<u64>,
    waited: Counter<f64>,
    unreadable: Counter<u64>,
    retries_left: Gauge<u64>,
    in_flight: UpDownCounter<i64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let scope =
            InstrumentationScope::builder("dealkit").with_version(env!("CARGO_PKG_VERSION"));
        let meter = global::meter_with_scope(scope.build());
        Self {
            duration: meter
                .f64_histogram("http.client.request.duration")
                .with_unit("s")
                .with_description("Duration of HTTP client requests.")
                .with_boundaries(BOUNDARIES.to_vec())
                .build(),
            attempts: meter
                .u64_counter("dealkit.client.attempts")
                .with_unit("{attempt}")
                .with_description("Attempts, by how many came before them in the same call.")
                .build(),
            calls: meter
                .u64_counter("dealkit.client.calls")
                .with_unit("{call}")
                .with_description("Calls that have ended, by outcome.")
                .build(),
            waited: meter
                .f64_counter("dealkit.client.wait")
                .with_unit("s")
                .with_description("Time that calls have waited to be sent, or to be sent again.")
                .build(),
            unreadable: meter
                .u64_counter("dealkit.client.unreadable")
                .with_unit("{field}")
                .with_description("Fields of responses that could not be read and were skipped.")
                .build(),
            retries_left: meter
                .u64_gauge("dealkit.client.retries_left")
                .with_unit("{retry}")
                .with_description("Retries that the client's quota allows.")
                .build(),
            in_flight: meter
                .i64_up_down_counter("dealkit.client.in_flight")
                .with_unit("{call}")
                .with_description("Calls in flight, those that wait included.")
                .build(),
        }
    }

    pub(crate) fn call_began(&self, operation: &Attributes) {
        self.in_flight.add(1, operation);
    }

    pub(super) fn attempt_ended(
        &self,
        operation: &Attributes,
        times: AttemptTimes,
        status: Option<u16>,
        error_type: Option<&str>,
    ) {
        let mut attributes = operation.to_vec();
        let resent = KeyValue::new("http.request.resend_count", i64::from(times.number) - 1);
        self.attempts
            .add(1, &[attributes.as_slice(), &[resent]].concat());
        attributes.extend(
            status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))),
        );
        attributes.extend(error_type.map(|kind| KeyValue::new("error.type", kind.to_owned())));
        self.duration
            .record(times.duration.as_secs_f64(), &attributes);
    }

    pub(crate) fn skipped(&self, operation: &Attributes, fields: usize) {
        self.unreadable.add(fields as u64, operation);
    }

    pub(crate) fn call_ended(
        &self,
        operation: &Attributes,
        outcome: Outcome,
        error_type: Option<&str>,
        waited: Duration,
        retries_left: u32,
    ) {
        self.in_flight.add(-1, operation);
        self.waited.add(waited.as_secs_f64(), operation);
        let [_, _, server @ ..] = operation;
        self.retries_left.record(retries_left.into(), server);
        let mut attributes = operation.to_vec();
        attributes.push(KeyValue::new("dealkit.outcome", outcome.as_str()));
        attributes.extend(error_type.map(|kind| KeyValue::new("error.type", kind.to_owned())));
        self.calls.add(1, &attributes);
    }
}

/// The operation that is called, and where.
pub(crate) type Attributes = [KeyValue; 4];

pub(crate) fn attributes(operation: &Operation, base: &Url) -> Attributes {
    let (method, template) = (operation.method.to_string(), operation.template.clone());
    let address = base.host_str().unwrap_or_default().to_owned();
    let port = base.port_or_known_default().unwrap_or_default();
    [
        KeyValue::new("http.request.method", method),
        KeyValue::new("url.template", template),
        KeyValue::new("server.address", address),
        KeyValue::new("server.port", i64::from(port)),
    ]
}
