//! Spans and events that dealkit reports to a tracing subscriber, with OpenTelemetry's names. `canary.rs` tests that they
//! contain no secrets and no personal data.
#![cfg(feature = "client")]

#[cfg(feature = "metrics")]
#[path = "tracing/metrics.rs"]
mod metrics;
mod peer;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use dealkit::Unreadable;
use peer::{AGENT, DEAL, Peer, ada, client, unreachable_url};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    registry::LookupSpan,
};

/// A span or an event, with its fields as text.
#[derive(Clone, Debug, Default)]
struct SpanOrEvent {
    level: String,
    target: String,
    fields: BTreeMap<String, String>,
}

impl Visit for SpanOrEvent {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields
            .insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_u64(&mut self, field: &Field, _: u64) {
        panic!("{field} is unsigned, so OpenTelemetry would get text");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields
            .insert(field.name().to_owned(), value.to_owned());
    }
}

/// A subscriber that stores every span and every event.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Captured>>);

#[derive(Default)]
struct Captured {
    spans: Vec<(Id, SpanOrEvent)>,
    events: Vec<SpanOrEvent>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut seen = SpanOrEvent {
            level: attributes.metadata().level().to_string(),
            target: attributes.metadata().target().to_owned(),
            ..SpanOrEvent::default()
        };
        attributes.record(&mut seen);
        self.0.lock().unwrap().spans.push((id.clone(), seen));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        // Identifiers are reused once their span has ended, so the last span with this one is the current one.
        let mut captured = self.0.lock().unwrap();
        let span = captured
            .spans
            .iter_mut()
            .rev()
            .find(|(found, _)| found == id);
        values.record(&mut span.unwrap().1);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut seen = SpanOrEvent {
            level: event.metadata().level().to_string(),
            target: event.metadata().target().to_owned(),
            ..SpanOrEvent::default()
        };
        event.record(&mut seen);
        self.0.lock().unwrap().events.push(seen);
    }
}

impl Capture {
    /// Starts to capture the spans and events of this thread, which runs both ends of every connection.
    fn start() -> (Self, DefaultGuard) {
        let capture = Self::default();
        let subscriber = tracing_subscriber::registry().with(capture.clone());
        (capture, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the events of dealkit: the level and message of each, and its other fields.
    fn dealkit_events(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let captured = self.0.lock().unwrap();
        let own = captured
            .events
            .iter()
            .filter(|seen| seen.target == "dealkit");
        own.map(|seen| {
            let mut fields = seen.fields.clone();
            let message = fields.remove("message").unwrap();
            (format!("{} {message}", seen.level), fields)
        })
        .collect()
    }

    /// Returns the fields of the spans that dealkit created for calls.
    fn call_spans(&self) -> Vec<BTreeMap<String, String>> {
        let captured = self.0.lock().unwrap();
        captured
            .spans
            .iter()
            .filter(|(_, seen)| {
                seen.target == "dealkit" && seen.fields.contains_key("url.template")
            })
            .map(|(_, seen)| seen.fields.clone())
            .collect()
    }
}

fn field<'a>(span: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    span.get(name).map(String::as_str)
}

/// Each case has the service's response, and the fields that the call's span and its last event then have.
#[tokio::test]
async fn each_call_has_one_span_and_one_last_event() {
    let problem = r#"{"title":"d_1","request_id":"r-1"}"#;
    for (answer, is_create, message, ends) in [
        (
            Some((200, AGENT)),
            true,
            "INFO call succeeded",
            &[
                ("http.response.status_code", "200"),
                ("dealkit.outcome", "succeeded"),
                ("dealkit.attempts", "1"),
            ][..],
        ),
        (
            Some((503, problem)),
            true,
            "WARN call failed",
            &[
                ("http.response.status_code", "503"),
                ("error.type", "503"),
                ("dealkit.outcome", "unknown"),
                ("dealkit.effect", "the agent may exist"),
                ("dealkit.request_id", "r-1"),
                ("dealkit.attempts", "1"),
            ],
        ),
        // The status is a success, but the body cannot be read.
        (
            Some((200, r#"{"id":1}"#)),
            false,
            "WARN call failed",
            &[
                ("http.response.status_code", "200"),
                ("error.type", "decode"),
                ("dealkit.outcome", "succeeded"),
                ("dealkit.attempts", "1"),
            ],
        ),
        (
            None,
            true,
            "WARN call failed",
            &[
                ("error.type", "connect"),
                ("dealkit.outcome", "not_sent"),
                ("dealkit.attempts", "1"),
            ],
        ),
        (
            None,
            false,
            "WARN call failed",
            &[
                ("error.type", "validation"),
                ("dealkit.outcome", "not_sent"),
                ("dealkit.attempts", "0"),
            ],
        ),
    ] {
        let (capture, guard) = Capture::start();
        let mut peer = Peer::manual();
        let url = answer.map_or_else(unreachable_url, |_| peer.url.clone());
        let port = url.rsplit(':').next().unwrap();
        let client = client(url.as_str());
        let call = async {
            let id = if answer.is_some() { "d_1" } else { ".." };
            if is_create {
                let _ = client.agents().create(ada()).await;
            } else {
                let _ = client.deals().retrieve(id).await;
            }
        };
        let serve = async {
            if let Some((status, body)) = answer {
                peer.next().await.answer(status, body);
            }
        };
        tokio::join!(call, serve);
        drop(guard);
        let (method, template) = if is_create {
            ("POST", "/v1/agents")
        } else {
            ("GET", "/v1/deals/{id}")
        };
        let operation = [("http.request.method", method), ("url.template", template)];
        let ends = fields(ends);
        let mut events = capture.dealkit_events();
        // Each attempt also has an event.
        events.retain(|(message, _)| message != "DEBUG attempt ended");
        take_varying_fields(&mut events[0].1);
        let mut event = ends.clone();
        event.extend(fields(&operation));
        assert_eq!(events, [(message.to_owned(), event)]);

        let mut spans = capture.call_spans();
        take_seconds(&mut spans[0], "dealkit.wait");
        let name = format!("{method} {template}");
        let mut span = ends;
        span.remove("dealkit.attempts");
        span.remove("dealkit.effect");
        if let Some(kind) = span.get("error.type") {
            let description = format!("{kind}, outcome {}", span["dealkit.outcome"]);
            span.insert("otel.status_description".to_owned(), description);
            span.insert("otel.status_code".to_owned(), "ERROR".to_owned());
        }
        span.extend(fields(&operation));
        span.extend(fields(&[
            ("otel.name", &name),
            ("otel.kind", "client"),
            ("url.scheme", "http"),
            ("server.address", "127.0.0.1"),
            ("server.port", port),
        ]));
        assert_eq!(spans, [span]);
    }
}

/// Returns fields as owned text.
fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Removes the fields that differ from call to call: the durations, which are checked first, and the retries left.
fn take_varying_fields(event: &mut BTreeMap<String, String>) {
    let duration = take_seconds(event, "dealkit.duration");
    assert!((0.0..=duration).contains(&take_seconds(event, "dealkit.wait")));
    assert!(duration < 600.0);
    event.remove("dealkit.retries_left").unwrap();
}

/// Removes a field that is a number of seconds, and returns it.
fn take_seconds(event: &mut BTreeMap<String, String>, name: &str) -> f64 {
    event.remove(name).unwrap().parse().unwrap()
}

#[tokio::test]
async fn skipped_fields_are_reported_in_one_event_and_counted_in_the_span() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::manual();
    let client = peer.client();
    let body =
        r#"{"id":"d_1","status":{"CANARY":1},"metadata":{"CANARY":"CANARY"},"quotes":["CANARY"]}"#;
    let (outcome, ()) = tokio::join!(
        client
            .deals()
            .retrieve("d_1")
            .unreadable(Unreadable::Skip)
            .send(),
        async { peer.next().await.answer(200, body) }
    );
    drop(guard);
    assert_eq!(outcome.unwrap().unreadable().len(), 2);
    let expected = fields(&[
        ("http.request.method", "GET"),
        ("url.template", "/v1/deals/{id}"),
        ("dealkit.unreadable", "2"),
        ("dealkit.pointers", "/status, /quotes"),
    ]);
    let events = capture.dealkit_events();
    let event = ("INFO fields could not be read".to_owned(), expected);
    assert!(events.contains(&event), "{events:?}");
    assert!(!format!("{events:?}").contains("CANARY"), "{events:?}");
    assert_eq!(
        field(&capture.call_spans()[0], "dealkit.unreadable"),
        Some("2")
    );
}

#[tokio::test]
async fn only_the_error_of_a_read_advises_to_skip_fields() {
    let mut peer = Peer::manual();
    let client = peer.client();
    let (outcomes, ()) = tokio::join!(
        async {
            (
                client.deals().retrieve("d_1").await.unwrap_err(),
                client.agents().create(ada()).await.unwrap_err(),
            )
        },
        async {
            peer.next().await.answer(200, r#"{"id":"d_1","status":1}"#);
            let agent = AGENT.replacen('{', r#"{"date_of_birth":1,"#, 1);
            peer.next().await.answer(201, &agent);
        }
    );
    let advice = "the field can be skipped [see unreadable]";
    assert!(outcomes.0.to_string().contains(advice), "{}", outcomes.0);
    // A caller who follows the advice after a create would create the agent again.
    assert!(outcomes.1.decode_error().unwrap().is_optional());
    assert!(
        !outcomes.1.to_string().contains("skipped"),
        "{}",
        outcomes.1
    );
}

#[tokio::test(start_paused = true)]
async fn calls_rejected_together_cause_one_pause_and_report_their_wait() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::in_memory();
    let client = peer.builder().build().unwrap();
    let ids = (0..8).map(|number| format!("d_{number}"));
    let mut many = client.deals().retrieve_many(ids).stream();
    let asks = [("retry-after", "20".to_owned())];
    tokio::join!(async { while many.next().await.is_some() {} }, async {
        let mut requests = Vec::new();
        for _ in 0..8 {
            requests.push(peer.next().await);
        }
        for heard in requests {
            heard.try_answer(429, &asks, "");
        }
        for _ in 0..8 {
            peer.next().await.answer(200, DEAL);
        }
    });
    drop(guard);
    let mut events = capture.dealkit_events();
    events.retain(|(message, _)| message != "WARN retrying" && message != "DEBUG attempt ended");
    let (first, ends) = events.split_first_mut().unwrap();
    assert_eq!(first.0, "WARN pausing");
    assert_eq!(first.1["dealkit.delay"], "20.0");
    assert_eq!(ends.len(), 8);
    for (message, event) in ends {
        assert_eq!(message, "INFO call succeeded");
        let (wait, duration) = (
            take_seconds(event, "dealkit.wait"),
            take_seconds(event, "dealkit.duration"),
        );
        assert!((20.0..=duration).contains(&wait), "{wait} of {duration}");
    }
}

#[tokio::test]
async fn a_dropped_call_is_reported_as_cancelled() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::manual();
    let client = peer.client();
    tokio::select! {
        outcome = client.agents().create(ada()).send() => panic!("{outcome:?}"),
        _ = peer.next() => {}
    }
    tokio::select! {
        outcome = client.deals().retrieve("d_1").send() => panic!("{outcome:?}"),
        _ = peer.next() => {}
    }
    // A request that was never sent is not reported as a call.
    drop(client.agents().create(ada()).send());
    drop(guard);
    let mut events = capture.dealkit_events();
    assert_eq!(events.len(), 2, "{events:?}");
    // A cancelled read needs no attention, a cancelled create does: there may be an agent.
    assert_eq!(events[1].0, "INFO call cancelled");
    let (message, event) = &mut events[0];
    assert_eq!(message, "WARN call cancelled");
    take_varying_fields(event);
    let expected = [
        ("http.request.method", "POST"),
        ("url.template", "/v1/agents"),
        ("error.type", "cancelled"),
        ("dealkit.outcome", "unknown"),
        ("dealkit.effect", "the agent may exist"),
        ("dealkit.attempts", "1"),
    ];
    assert_eq!(*event, fields(&expected));
}
