//! Metrics of calls, for the OpenTelemetry meter provider of the program (feature `metrics`). They have the names and attributes of
//! the Python package's metrics. Like spans and events, they contain no identifiers, headers or bodies.

use std::time::Duration;

use opentelemetry::{
    InstrumentationScope, KeyValue, global,
    metrics::{Counter, Gauge, Histogram, UpDownCounter},
};
use url::Url;

use crate::transport::{operation::Operation, outcome::Outcome};

/// Bucket boundaries in seconds, from OpenTelemetry's semantic conventions.
const DURATION_BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// The instruments that measure the calls of a client.
pub(crate) struct CallMetrics {
    duration: Histogram<f64>,
    attempts: Counter<u64>,
    calls: Counter<u64>,
    wait_time: Counter<f64>,
    unreadable: Counter<u64>,
    retries_left: Gauge<u64>,
    in_flight: UpDownCounter<i64>,
    /// The address and the port of the service.
    server: Vec<KeyValue>,
}

impl CallMetrics {
    /// Makes the instruments for calls to the service with this base URL.
    pub(crate) fn new(base_url: &Url) -> Self {
        let scope =
            InstrumentationScope::builder("dealkit").with_version(env!("CARGO_PKG_VERSION"));
        let meter = global::meter_with_scope(scope.build());
        let address = base_url.host_str().unwrap_or_default().to_owned();
        let port = base_url.port_or_known_default().map(i64::from);
        let port = port.map(|port| KeyValue::new("server.port", port));
        Self {
            duration: meter
                .f64_histogram("http.client.request.duration")
                .with_unit("s")
                .with_description("Duration of HTTP client requests.")
                .with_boundaries(DURATION_BUCKETS.to_vec())
                .build(),
            attempts: meter
                .u64_counter("dealkit.client.attempts")
                .with_unit("{attempt}")
                .with_description("Attempts, by the number of earlier attempts of the same call.")
                .build(),
            calls: meter
                .u64_counter("dealkit.client.calls")
                .with_unit("{call}")
                .with_description("Calls that have ended, by outcome.")
                .build(),
            wait_time: meter
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
                .with_description("Calls in flight, including those that wait to be sent.")
                .build(),
            server: [KeyValue::new("server.address", address)]
                .into_iter()
                .chain(port)
                .collect(),
        }
    }

    /// Measures the start of a call.
    pub(crate) fn start_call(&self, operation: &Operation) {
        self.in_flight.add(1, &self.attributes(operation));
    }

    /// Measures the end of a call.
    pub(crate) fn end_call(
        &self,
        operation: &Operation,
        outcome: Outcome,
        error_type: Option<&str>,
        wait: impl FnOnce() -> Duration,
        retries_left: impl FnOnce() -> u32,
    ) {
        let mut attributes = self.attributes(operation);
        self.in_flight.add(-1, &attributes);
        self.wait_time.add(wait().as_secs_f64(), &attributes);
        self.retries_left
            .record(retries_left().into(), &self.server);
        attributes.extend(error_attribute(error_type));
        attributes.push(KeyValue::new("dealkit.outcome", outcome.as_str()));
        self.calls.add(1, &attributes);
    }

    /// Measures the attempt with this number, counted from 1, which has ended.
    pub(crate) fn end_attempt(
        &self,
        operation: &Operation,
        number: u32,
        duration: Duration,
        status: Option<i64>,
        error_type: Option<&str>,
    ) {
        let mut attributes = self.attributes(operation);
        let earlier_attempts = i64::from(number) - 1;
        attributes.push(KeyValue::new("http.request.resend_count", earlier_attempts));
        self.attempts.add(1, &attributes);
        attributes.pop();
        attributes.extend(error_attribute(error_type));
        attributes.extend(status.map(|status| KeyValue::new("http.response.status_code", status)));
        self.duration.record(duration.as_secs_f64(), &attributes);
    }

    /// Measures fields that could not be read and were skipped.
    pub(crate) fn add_unreadable(&self, operation: &Operation, count: usize) {
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.unreadable.add(count, &self.attributes(operation));
        }
    }

    fn attributes(&self, operation: &Operation) -> Vec<KeyValue> {
        let mut attributes = self.server.clone();
        let method = operation.method.as_str().to_owned();
        attributes.push(KeyValue::new("http.request.method", method));
        let template = operation.template.clone();
        attributes.push(KeyValue::new("url.template", template));
        attributes
    }
}

fn error_attribute(error_type: Option<&str>) -> Option<KeyValue> {
    error_type.map(|error_type| KeyValue::new("error.type", error_type.to_owned()))
}
