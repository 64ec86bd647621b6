//! An incident told twice: the service refuses calls, is down, and breaks off a create; and whoever reads only the events, or
//! only the spans, knows all of it.
//!
//! The sandbox is in the same process, and the clock is paused: the minute that it takes takes no time.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use dealkit::{AgentProfile, Client, CreateAgent, Outcome};
use dealkit_server::{Fault, Sandbox};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    registry::LookupSpan,
};

/// Writes each event on a line: level, message and some of the fields, seconds as whole numbers.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(BTreeMap<&'static str, String>);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), format!("{}", value as u64));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let shown = [
            "message",
            "http.request.method",
            "error.type",
            "dealkit.outcome",
            "dealkit.attempts",
            "dealkit.wait",
            "dealkit.delay",
        ];
        let shown = shown
            .into_iter()
            .filter_map(|name| line.0.get(name).cloned());
        let level = event.metadata().level().to_string();
        let line: Vec<_> = std::iter::once(level).chain(shown).collect();
        self.0.lock().unwrap().push(line.join(" "));
    }
}

#[tokio::test(start_paused = true)]
async fn each_tells_all_of_it() {
    let (lines, spans) = (Lines::default(), InMemorySpanExporter::default());
    let tracer = SdkTracerProvider::builder()
        .with_simple_exporter(spans.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(tracer.tracer("incident"));
    let subscriber = tracing_subscriber::registry()
        .with(lines.clone())
        .with(layer);
    let _guard = tracing::subscriber::set_default(subscriber);

    let service = Sandbox::builder().service().unwrap();
    let client = Client::builder()
        .base_url("http://localhost")
        .service_key("sandbox-key")
        .transport(service.clone())
        .build()
        .unwrap();
    for fault in [
        Fault::status(429).retry_after(5).times(2),
        Fault::status(503).path("/v1/deals/d_2").times(3),
        Fault::process_then_reset().method("POST"),
    ] {
        service.fail_next(fault).unwrap();
    }
    let late = client.deals().retrieve("d_1").await;
    let failed = client.deals().retrieve("d_2").await;
    let create = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new());
    let lost = client.agents().create(create.build().unwrap()).await;
    late.unwrap();
    assert_eq!(failed.unwrap_err().attempts(), 3);
    assert_eq!(lost.unwrap_err().outcome(), Outcome::Unknown);

    let told = lines.0.lock().unwrap().clone();
    let own = told.iter().filter(|line| !line.contains("attempt ended"));
    assert_eq!(
        own.collect::<Vec<_>>(),
        [
            "WARN pausing GET 429 5",
            "WARN retrying GET 429 0 5",
            "WARN pausing GET 429 5",
            "WARN retrying GET 429 5 5",
            "INFO call succeeded GET succeeded 3 10",
            // After the rejections, the rate limiter sends a call per second.
            "WARN retrying GET 503 1 0",
            "WARN retrying GET 503 1 0",
            "WARN call failed GET 503 unknown 3 3",
            "WARN call failed POST interrupted unknown 1 0",
        ]
    );

    let spans = spans.get_finished_spans().unwrap();
    let told: Vec<String> = spans
        .iter()
        .map(|span| {
            let statuses = span.events.iter().filter_map(|event| {
                let mut of = event.attributes.iter();
                let number = of.clone().find(|of| of.key.as_str() == "dealkit.attempt")?;
                let error = of.find(|of| of.key.as_str() == "error.type");
                let error = error.map_or_else(|| "fine".to_owned(), |of| of.value.to_string());
                Some(format!("{}:{error}", number.value))
            });
            let attempts = statuses.collect::<Vec<_>>().join(" ");
            let attribute = |name: &str| {
                let mut of = span.attributes.iter();
                let found = of.find(|of| of.key.as_str() == name);
                found.map_or_else(String::new, |of| of.value.to_string())
            };
            let waited = attribute("dealkit.wait").parse::<f64>().unwrap() as u64;
            let (outcome, status) = (attribute("dealkit.outcome"), &span.status);
            assert!(
                attempts.contains("interrupted") || !attribute("dealkit.request_id").is_empty()
            );
            format!(
                "{}, {attempts}, {waited} s, {outcome}, {status:?}",
                span.name
            )
        })
        .collect();
    let error = |description: &str| format!("Error {{ description: {description:?} }}");
    assert_eq!(
        told,
        [
            "GET /v1/deals/{id}, 1:429 2:429 3:fine, 10 s, succeeded, Unset".to_owned(),
            format!(
                "GET /v1/deals/{{id}}, 1:503 2:503 3:503, 3 s, unknown, {}",
                error("503, outcome unknown")
            ),
            format!(
                "POST /v1/agents, 1:interrupted, 0 s, unknown, {}",
                error("interrupted, outcome unknown")
            ),
        ]
    );
}
