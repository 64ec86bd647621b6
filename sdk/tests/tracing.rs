//! What dealkit reports to a tracing subscriber, by OpenTelemetry's names. That nothing of it is secret or personal, and
//! nothing that other crates report, is for `canary.rs` to show.
#![cfg(feature = "client")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its helpers too"
)]

mod mock;
mod peer;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use dealkit::{Error, Method, RetryPolicy, Unreadable};
use mock::{AGENT, DEAL, client};
use peer::{Peer, ada, refused};
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
struct Seen {
    level: String,
    target: String,
    fields: BTreeMap<String, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields
            .insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields
            .insert(field.name().to_owned(), value.to_owned());
    }
}

/// Keeps every span and every event.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Captured>>);

#[derive(Default)]
struct Captured {
    spans: Vec<(Id, Seen)>,
    events: Vec<Seen>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut seen = Seen {
            level: attributes.metadata().level().to_string(),
            target: attributes.metadata().target().to_owned(),
            ..Seen::default()
        };
        attributes.record(&mut seen);
        self.0.lock().unwrap().spans.push((id.clone(), seen));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        // An id is reused once its span has ended: the last one is meant.
        let mut captured = self.0.lock().unwrap();
        let span = captured
            .spans
            .iter_mut()
            .rev()
            .find(|(found, _)| found == id);
        values.record(&mut span.unwrap().1);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut seen = Seen {
            level: event.metadata().level().to_string(),
            target: event.metadata().target().to_owned(),
            ..Seen::default()
        };
        event.record(&mut seen);
        self.0.lock().unwrap().events.push(seen);
    }
}

impl Capture {
    /// Captures what this thread does from now on; both ends of every connection run on it.
    fn start() -> (Self, DefaultGuard) {
        let capture = Self::default();
        let subscriber = tracing_subscriber::registry().with(capture.clone());
        (capture, tracing::subscriber::set_default(subscriber))
    }

    /// The events that dealkit emitted, without their messages, which are separate.
    fn told(&self) -> Vec<(String, BTreeMap<String, String>)> {
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

    /// The spans that dealkit created for calls.
    fn calls(&self) -> Vec<BTreeMap<String, String>> {
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

/// Makes every kind of call, each answered with `status` and `body`.
async fn call_everything(status: u16, body: &str) -> (u16, Vec<Option<Error>>) {
    let mut peer = Peer::by_hand();
    let port = peer.url.rsplit(':').next().unwrap().parse().unwrap();
    let client = client(peer.url.as_str());
    let calls = async {
        let request = client.request(Method::PATCH, ["deals", "d_1"]);
        let mut many = client.deals().retrieve_many(["d_1"]).stream();
        vec![
            client.agents().create(ada()).await.err(),
            client.deals().retrieve("d_1").await.err(),
            request.await.err(),
            many.next().await.unwrap().result.err(),
        ]
    };
    let serve = async {
        loop {
            peer.next().await.answer(status, body);
        }
    };
    tokio::select! {
        errors = calls => (port, errors),
        () = serve => panic!("serves for ever"),
    }
}

fn field<'a>(span: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    span.get(name).map(String::as_str)
}

#[tokio::test]
async fn a_success_is_one_span_with_these_fields() {
    let (capture, guard) = Capture::start();
    let (port, errors) = call_everything(200, AGENT).await;
    drop(guard);
    assert!(errors.iter().all(Option::is_none), "{errors:?}");
    let spans = capture.calls();
    let port = port.to_string();
    let expected = [
        ("POST", "/v1/agents"),
        ("GET", "/v1/deals/{id}"),
        ("PATCH", "/v1/{}/{}"),
        ("GET", "/v1/deals/{id}"),
    ];
    assert_eq!(spans.len(), expected.len(), "{spans:?}");
    for (span, (method, template)) in spans.iter().zip(expected) {
        let name = format!("{method} {template}");
        for (field_name, value) in [
            ("otel.name", name.as_str()),
            ("otel.kind", "client"),
            ("http.request.method", method),
            ("url.template", template),
            ("url.scheme", "http"),
            ("server.address", "127.0.0.1"),
            ("server.port", &port),
            ("http.response.status_code", "200"),
        ] {
            assert_eq!(
                field(span, field_name),
                Some(value),
                "{field_name} in {span:?}"
            );
        }
        assert_eq!(field(span, "error.type"), None, "{span:?}");
        assert_eq!(field(span, "otel.status_code"), None, "{span:?}");
    }
}

#[tokio::test]
async fn an_error_response_is_the_error_s_type() {
    let (capture, guard) = Capture::start();
    let (_, errors) = call_everything(404, "").await;
    drop(guard);
    assert!(
        errors
            .iter()
            .all(|error| error.as_ref().unwrap().is_not_found())
    );
    for span in capture.calls() {
        assert_eq!(
            field(&span, "http.response.status_code"),
            Some("404"),
            "{span:?}"
        );
        assert_eq!(field(&span, "error.type"), Some("404"), "{span:?}");
        assert_eq!(field(&span, "otel.status_code"), Some("ERROR"), "{span:?}");
        let description = Some("404, outcome rejected");
        assert_eq!(field(&span, "otel.status_description"), description);
        assert_eq!(field(&span, "dealkit.outcome"), Some("rejected"));
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_the_error_s_type() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    let (outcome, ()) = tokio::join!(client.deals().retrieve("d_1").send(), async {
        peer.next().await.answer(200, r#"{"id":1}"#);
    });
    drop(guard);
    outcome.unwrap_err();
    let spans = capture.calls();
    assert_eq!(spans.len(), 1);
    assert_eq!(field(&spans[0], "http.response.status_code"), Some("200"));
    // A success by its status; reading it is what failed.
    let kind = field(&spans[0], "error.type").unwrap();
    assert!(kind.eq_ignore_ascii_case("decode"), "{kind}");
}

#[tokio::test]
async fn a_failure_without_a_response_is_the_error_s_type() {
    let (capture, guard) = Capture::start();
    let client = client(refused());
    client.agents().create(ada()).await.unwrap_err();
    client
        .deals()
        .retrieve("d_1")
        .header("x", "\n")
        .await
        .unwrap_err();
    client.deals().retrieve("..").await.unwrap_err();
    drop(guard);
    let spans = capture.calls();
    let kinds: Vec<String> = spans
        .iter()
        .map(|span| field(span, "error.type").unwrap().to_lowercase())
        .collect();
    assert_eq!(kinds, ["connect", "config", "validation"]);
    for span in &spans {
        assert_eq!(field(span, "http.response.status_code"), None, "{span:?}");
        assert_eq!(field(span, "otel.status_code"), Some("ERROR"), "{span:?}");
    }
}

/// The names and values of fields, as text; the duration is checked to be a number of seconds.
fn fields(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Removes what changes from call to call of the end of one: its times, which are checked, and the retries that are left.
fn take_end(event: &mut BTreeMap<String, String>) {
    let duration = take_seconds(event, "dealkit.duration");
    assert!((0.0..=duration).contains(&take_seconds(event, "dealkit.wait")));
    assert!(duration < 10.0);
    event.remove("dealkit.retries_left").unwrap();
}

/// Removes a field that is a number of seconds, and returns it.
fn take_seconds(event: &mut BTreeMap<String, String>, name: &str) -> f64 {
    event.remove(name).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_call_is_one_event_when_it_ends() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    let problem = r#"{"title":"d_1","request_id":"r-1"}"#;
    let (outcomes, ()) = tokio::join!(
        async {
            (
                client.deals().retrieve("d_1").await,
                client.agents().create(ada()).await,
            )
        },
        async {
            peer.next().await.answer(200, DEAL);
            peer.next().await.answer(503, problem);
        }
    );
    client.deals().retrieve("..").await.unwrap_err();
    drop(guard);
    outcomes.0.unwrap();
    outcomes.1.unwrap_err();
    let mut told = capture.told();
    // Each attempt has an event, too.
    assert_eq!(
        told.extract_if(.., |(message, _)| message == "DEBUG attempt ended")
            .count(),
        2
    );
    for (_, event) in &mut told {
        take_end(event);
    }
    let expected = [
        (
            "INFO call succeeded".to_owned(),
            fields(&[
                ("http.request.method", "GET"),
                ("url.template", "/v1/deals/{id}"),
                ("http.response.status_code", "200"),
                ("dealkit.outcome", "succeeded"),
                ("dealkit.attempts", "1"),
            ]),
        ),
        (
            "WARN call failed".to_owned(),
            fields(&[
                ("http.request.method", "POST"),
                ("url.template", "/v1/agents"),
                ("http.response.status_code", "503"),
                ("error.type", "503"),
                ("dealkit.attempts", "1"),
                ("dealkit.outcome", "unknown"),
                ("dealkit.request_id", "r-1"),
            ]),
        ),
        (
            "WARN call failed".to_owned(),
            fields(&[
                ("http.request.method", "GET"),
                ("url.template", "/v1/deals/{id}"),
                ("error.type", "validation"),
                ("dealkit.attempts", "0"),
                ("dealkit.outcome", "not_sent"),
            ]),
        ),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn skipped_fields_are_one_event_and_counted_in_the_span() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
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
    let told = capture.told();
    let event = ("INFO fields could not be read".to_owned(), expected);
    assert!(told.contains(&event), "{told:?}");
    assert!(!format!("{told:?}").contains("CANARY"), "{told:?}");
    assert_eq!(field(&capture.calls()[0], "dealkit.unreadable"), Some("2"));
}

#[tokio::test]
async fn only_of_a_read_is_it_said_that_fields_can_be_skipped() {
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
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
    let advice = "with the option unreadable, it can be left out";
    assert!(outcomes.0.to_string().contains(advice), "{}", outcomes.0);
    // Whoever followed it would create the agent again.
    assert!(outcomes.1.decode_error().unwrap().is_optional());
    assert!(!outcomes.1.to_string().contains("option"), "{}", outcomes.1);
}

#[tokio::test]
async fn a_retry_is_a_warning_with_its_reason() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let at_once = RetryPolicy::new().backoff(Duration::ZERO, Duration::ZERO);
    let client = mock::builder(peer.url.as_str())
        .retry(at_once)
        .build()
        .unwrap();
    let (outcome, ()) = tokio::join!(client.deals().retrieve("d_1").send(), async {
        peer.next().await.answer(503, "busy");
        drop(peer.next().await);
        peer.next().await.answer(200, DEAL);
    });
    drop(guard);
    outcome.unwrap();
    let mut told = capture.told();
    let (end, attempts) = told.split_last_mut().unwrap();
    assert_eq!(end.1["dealkit.attempts"], "3");
    for (_, event) in &mut *attempts {
        assert!(take_seconds(event, "dealkit.wait") < 0.1);
        assert!(take_seconds(event, "dealkit.duration") < 10.0);
        assert!(
            event
                .remove("dealkit.delay")
                .is_none_or(|delay| delay == "0.0")
        );
        assert_eq!(event.remove("http.request.method").unwrap(), "GET");
        assert_eq!(event.remove("url.template").unwrap(), "/v1/deals/{id}");
    }
    let expected = [
        (
            "WARN retrying".to_owned(),
            fields(&[
                ("dealkit.attempt", "1"),
                ("http.request.resend_count", "1"),
                ("http.response.status_code", "503"),
                ("error.type", "503"),
            ]),
        ),
        (
            "WARN retrying".to_owned(),
            fields(&[
                ("dealkit.attempt", "2"),
                ("http.request.resend_count", "2"),
                ("error.type", "interrupted"),
            ]),
        ),
        (
            "DEBUG attempt ended".to_owned(),
            fields(&[
                ("dealkit.attempt", "3"),
                ("http.response.status_code", "200"),
            ]),
        ),
    ];
    assert_eq!(*attempts, expected);
    let spans = capture.calls();
    assert_eq!(field(&spans[0], "http.request.resend_count"), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_together_are_one_pause_and_say_how_long_they_waited() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let client = mock::builder(peer.url.as_str()).retry(RetryPolicy::new());
    let client = client.build().unwrap();
    let ids = (0..8).map(|number| format!("d_{number}"));
    let mut many = client.deals().retrieve_many(ids).stream();
    let asks = [("retry-after", "20".to_owned())];
    tokio::join!(async { while many.next().await.is_some() {} }, async {
        let mut refused = Vec::new();
        for _ in 0..8 {
            refused.push(peer.next().await);
        }
        for heard in refused {
            heard.answer_if_there(429, &asks, "");
        }
        for _ in 0..8 {
            peer.next().await.answer(200, DEAL);
        }
    });
    drop(guard);
    let mut told = capture.told();
    told.retain(|(message, _)| message != "WARN retrying" && message != "DEBUG attempt ended");
    let (first, ends) = told.split_first_mut().unwrap();
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
async fn a_deal_that_nobody_waits_for_is_no_warning() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    tokio::select! {
        outcome = client.deals().retrieve("d_1").send() => panic!("{outcome:?}"),
        _ = peer.next() => {}
    }
    drop(guard);
    assert_eq!(capture.told()[0].0, "INFO call cancelled");
}

#[tokio::test]
async fn a_call_that_is_dropped_has_ended() {
    let (capture, guard) = Capture::start();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    tokio::select! {
        outcome = client.agents().create(ada()).send() => panic!("{outcome:?}"),
        _ = peer.next() => {}
    }
    // What was never sent is not a call.
    drop(client.agents().create(ada()).send());
    drop(guard);
    let mut told = capture.told();
    assert_eq!(told.len(), 1, "{told:?}");
    let (message, event) = &mut told[0];
    assert_eq!(message, "WARN call cancelled"); // There may be an agent.
    take_end(event);
    let expected = [
        ("http.request.method", "POST"),
        ("url.template", "/v1/agents"),
        ("error.type", "cancelled"),
        ("dealkit.outcome", "unknown"),
        ("dealkit.attempts", "1"),
    ];
    assert_eq!(*event, fields(&expected));
}
