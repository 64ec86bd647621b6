//! The faults that are to happen, and which of them happens to a request.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use http::Method;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::{
    sandbox::fault::{Fault, InvalidFault, Play, Rule},
    state::{page::Room, split_mix::SplitMix64},
};

/// How many faults there may be at once.
const MAX_FAULTS: usize = 1_000;

/// How many bytes their texts may have, bodies above all.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A list of faults, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Whether there are any, which is all that a request looks at when there are none.
    any: AtomicBool,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    added: u64,
    entries: Vec<PendingFault>,
}

/// A fault, its number, and how often it has `matched` and been `played`.
#[derive(Clone, Debug)]
pub(super) struct PendingFault {
    pub(super) id: u64,
    fault: Fault,
    rule: Rule,
    /// How many of the requests that it was asked about fit it.
    matched: u64,
    played: u64,
}

impl PendingFault {
    /// Whether it happens to the request.
    fn happens_to(&mut self, method: &Method, path: &str) -> bool {
        let Rule {
            after,
            probability,
            seed,
            ..
        } = self.rule;
        let fits = self.rule.method.as_ref().is_none_or(|only| only == method)
            && self
                .rule
                .path
                .as_ref()
                .is_none_or(|only| is_path(path, only));
        if !fits {
            return false;
        }
        let index = self.matched;
        self.matched += 1;
        // What decides is the index of the request, not how often chance was asked before: the same seed hits the same
        // requests.
        let happens = index >= after && SplitMix64::of(seed, index).unit() < probability;
        self.played += u64::from(happens);
        happens
    }
}

impl Serialize for PendingFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        self.fault.write(&mut map)?;
        map.serialize_entry("matched", &self.matched)?;
        map.serialize_entry("played", &self.played)?;
        map.end()
    }
}

impl Faults {
    /// Adds a fault, and returns its number.
    pub(crate) fn add(&self, fault: Fault) -> Result<u64, InvalidFault> {
        let rule = fault.check()?;
        let mut list = self.lock();
        if list.entries.len() >= MAX_FAULTS {
            return Err(InvalidFault::new(
                "there are 1000 faults already: remove some first",
            ));
        }
        let bytes: usize = list.entries.iter().map(|entry| entry.fault.bytes()).sum();
        if bytes + fault.bytes() > MAX_BYTES {
            return Err(InvalidFault::new(
                "all faults together may have bodies of 64 MiB: remove some first",
            ));
        }
        list.added += 1;
        let id = list.added;
        list.entries.push(PendingFault {
            id,
            fault,
            rule,
            matched: 0,
            played: 0,
        });
        self.any.store(true, Ordering::Release);
        Ok(id)
    }

    /// What happens to a request: the effect of the first fault that happens to it. A fault that has happened as often
    /// as it should is gone.
    pub(crate) fn pick(&self, method: &Method, path: &str) -> Option<Arc<Play>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut list = self.lock();
        let at = list
            .entries
            .iter_mut()
            .position(|entry| entry.happens_to(method, path))?;
        let entry = list.entries.get(at)?;
        let play = Arc::clone(&entry.rule.play);
        if entry.played >= entry.rule.times {
            list.entries.remove(at);
            self.any.store(!list.entries.is_empty(), Ordering::Release);
        }
        Some(play)
    }

    /// The faults after the one of this number, as many as there is room for, and whether there are more.
    pub(super) fn page(&self, after: u64, room: Room) -> (Vec<PendingFault>, bool) {
        let list = self.lock();
        let later = list.entries.iter().filter(|entry| entry.id > after);
        room.fill(later.cloned(), |entry| entry.fault.bytes())
    }

    /// Removes the fault with this number; false when there is none.
    pub(crate) fn remove(&self, id: u64) -> bool {
        let mut list = self.lock();
        let before = list.entries.len();
        list.entries.retain(|entry| entry.id != id);
        self.any.store(!list.entries.is_empty(), Ordering::Release);
        list.entries.len() < before
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        self.lock().entries.clear();
        self.any.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `path` matches `only`, in which a segment in braces stands for any segment.
fn is_path(path: &str, only: &str) -> bool {
    let mut segments = path.split('/');
    only.split('/').all(|expected| {
        let any = expected.starts_with('{') && expected.ends_with('}');
        segments
            .next()
            .is_some_and(|segment| segment == expected || (any && !segment.is_empty()))
    }) && segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Cut, How,
        sandbox::fault::{Effect, FaultBody},
    };

    fn get(faults: &Faults, path: &str) -> Option<String> {
        let play = faults.pick(&Method::GET, path);
        play.map(|play| play.to_string())
    }

    const ALL: Room = Room {
        entries: usize::MAX,
        bytes: usize::MAX,
    };

    fn listed(faults: &Faults) -> Value {
        serde_json::to_value(faults.page(0, ALL).0).unwrap()
    }

    #[test]
    fn the_first_that_happens_wins_and_goes_when_it_is_used_up() {
        let faults = Faults::default();
        faults
            .add(Fault::status(503).retry_after(1).times(2))
            .unwrap();
        faults
            .add(Fault::status(404).path("/v1/deals/{id}").after(1))
            .unwrap();
        faults
            .add(Fault::garbage().method("POST").forever())
            .unwrap();
        let deal = || get(&faults, "/v1/deals/d_1");
        assert_eq!(deal().as_deref(), Some("status=503; retry_after=1"));
        assert_eq!(deal().as_deref(), Some("status=503; retry_after=1"));
        // The second fault spares one request, and is asked only now.
        assert_eq!(deal(), None);
        assert_eq!(get(&faults, "/v1/agents"), None);
        assert_eq!(deal().as_deref(), Some("status=404"));
        assert_eq!(deal(), None);
        for _ in 0..3 {
            let play = faults.pick(&Method::POST, "/v1/agents").unwrap();
            assert_eq!(play.effect, Effect::Garbage);
        }
        assert_eq!(
            listed(&faults),
            json!([{"id": 3, "garbage": true, "method": "POST", "times": null, "matched": 3, "played": 3}])
        );
        assert!(faults.remove(3) && !faults.remove(3));
        assert!(!faults.any.load(Ordering::Relaxed));
    }

    #[test]
    fn a_segment_in_braces_is_any_one() {
        for (path, only, fits) in [
            ("/v1/deals/d_1", "/v1/deals/d_1", true),
            ("/v1/deals/d_1", "/v1/deals/{id}", true),
            ("/v1/deals/d_1", "/v1/{x}/{y}", true),
            ("/v1/deals/", "/v1/deals/{id}", false),
            ("/v1/deals", "/v1/deals/{id}", false),
            ("/v1/deals/a/b", "/v1/deals/{id}", false),
            ("/v1/agents", "/v1/deals", false),
            ("/", "/", true),
        ] {
            assert_eq!(is_path(path, only), fits, "{path} {only}");
        }
    }

    #[test]
    fn too_many_are_refused() {
        let faults = Faults::default();
        for _ in 0..MAX_FAULTS {
            faults.add(Fault::garbage()).unwrap();
        }
        let error = faults.add(Fault::garbage()).unwrap_err();
        assert!(error.to_string().contains("remove some"), "{error}");
        faults.clear();
        assert!(listed(&faults) == json!([]) && get(&faults, "/").is_none());
    }

    #[test]
    fn bodies_are_bounded_together_and_listed_in_pages() {
        let faults = Faults::default();
        let large = Fault::status(500).body("x".repeat(MAX_BYTES / 4));
        for _ in 0..4 {
            faults.add(large.clone()).unwrap();
        }
        let error = faults.add(Fault::status(500).body("x")).unwrap_err();
        assert!(error.to_string().contains("remove some"), "{error}");
        let small = Room { bytes: 1, ..ALL };
        let (page, is_more) = faults.page(1, small);
        assert_eq!((page.len(), page[0].id, is_more), (1, 2, true));
        assert!(faults.remove(1));
        faults.add(large).unwrap();
        // What is pending and what happens share the text.
        let list = faults.lock();
        let (Some(FaultBody::Text(pending)), Effect::Respond(made_up)) = (
            &list.entries[0].fault.body,
            &list.entries[0].rule.play.effect,
        ) else {
            panic!("no body");
        };
        assert_eq!(pending.as_ptr(), made_up.body().unwrap().0.as_ptr());
    }

    /// Digit for digit, whatever the numbers.
    #[test]
    fn a_body_of_json_is_listed_as_it_was_given() {
        let faults = Faults::default();
        let json = r#"{"status":500,"body":{"a":1.10e400}}"#;
        faults.add(Fault::from_json(json).unwrap()).unwrap();
        let listed = serde_json::to_string(&faults.page(0, ALL).0).unwrap();
        assert!(listed.contains(r#""body":{"a":1.10e400}"#), "{listed}");
    }

    fn faults() -> impl Strategy<Value = Fault> {
        let cut = prop_oneof![
            Just(Cut::BeforeHead),
            Just(Cut::InHead),
            any::<u64>().prop_map(Cut::AfterBytes)
        ];
        let how = prop_oneof![
            Just(None),
            Just(Some(How::Reset)),
            Just(Some(How::Eof)),
            Just(Some(How::Stall))
        ];
        let effect = prop_oneof![
            (
                200_u16..=599,
                proptest::option::of(0_u64..100),
                proptest::option::of("[ -~é]{0,20}")
            )
                .prop_map(|(status, retry_after, body)| {
                    let mut fault = Fault::status(status);
                    if let Some(seconds) = retry_after {
                        fault = fault.retry_after(seconds);
                    }
                    match body {
                        Some(body) => fault.body(body),
                        None => fault,
                    }
                }),
            (cut, how).prop_map(|(cut, how)| match how {
                Some(how) => Fault::cut(cut).how(how),
                None => Fault::cut(cut),
            }),
            Just(Fault::garbage()),
            Just(Fault::act_then_reset()),
            (0_u64..3_600_000).prop_map(|ms| Fault::delay(Duration::from_millis(ms))),
        ];
        let rule = (
            proptest::option::of(0_u64..3_600_000),
            proptest::option::of(prop_oneof![Just("GET"), Just("POST")]),
            proptest::option::of("/[a-z{}/]{0,12}"),
            proptest::option::of(any::<u64>()),
            proptest::option::of(1_u64..),
            // What a binary float holds, and serde_json reads back, exactly.
            proptest::option::of((0_u8..=128).prop_map(|of| f64::from(of) / 128.0)),
            proptest::option::of(any::<u64>()),
        );
        (effect, rule).prop_map(
            |(mut fault, (delay, method, path, after, times, probability, seed))| {
                if let Some(ms) = delay {
                    fault = fault.delayed(Duration::from_millis(ms));
                }
                fault.method = method.map(str::to_owned);
                fault.path = path;
                fault.after = after;
                fault = match times {
                    Some(times) => fault.times(times),
                    None => fault.forever(),
                };
                fault.probability = probability;
                fault.seed = seed;
                fault
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_listed_can_be_added_again(fault in faults()) {
            let faults = Faults::default();
            faults.add(fault.clone()).unwrap();
            let mut listed = listed(&faults)[0].take();
            for counter in ["id", "matched", "played"] {
                listed.as_object_mut().unwrap().remove(counter).unwrap();
            }
            prop_assert_eq!(Fault::from_json(&listed.to_string()).unwrap(), fault);
        }

        #[test]
        fn what_the_journal_shows_of_a_fault_is_a_header(mut fault in faults()) {
            fault.body = None;
            let play = fault.play().unwrap();
            prop_assert_eq!(Play::from_header(play.to_string().as_bytes()).unwrap(), play);
        }

        #[test]
        fn no_text_is_too_odd(text in ".*", json in "\\{(\"(status|cut|how|delay|times|body|x)\":(1|-1|\"a\"|null|1e9|\\{\\}),?){0,3}\\}") {
            let _ = Play::from_header(text.as_bytes());
            let _ = Fault::from_json(&text);
            let _ = Fault::from_json(&json);
        }

        /// The same seed hits the same requests, and about as many as it should.
        #[test]
        fn chance_is_the_same_for_the_same_seed(seed in any::<u64>(), percent in 0_u32..=100) {
            let hit = || {
                let faults = Faults::default();
                let probability = f64::from(percent) / 100.0;
                faults.add(Fault::status(500).forever().probability(probability).seed(seed)).unwrap();
                (0..500).map(|_| get(&faults, "/").is_some()).collect::<Vec<_>>()
            };
            let hits = hit();
            prop_assert_eq!(&hits, &hit());
            let hits = hits.iter().filter(|hit| **hit).count() as f64;
            let expected = f64::from(percent) * 5.0;
            prop_assert!((hits - expected).abs() < 75.0, "{} of {}", hits, expected);
        }

        /// Exactly those requests are hit that come after the first `after`, and no more than `times` of them.
        #[test]
        fn after_and_times_count_requests(after in 0_u64..20, times in 1_u64..20) {
            let faults = Faults::default();
            faults.add(Fault::garbage().after(after).times(times)).unwrap();
            for index in 0..50 {
                let expected = (after..after + times).contains(&index);
                prop_assert_eq!(get(&faults, "/").is_some(), expected);
            }
            prop_assert_eq!(listed(&faults), json!([]));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_allowed() {
        for (json, expected) in [
            ("[]", "expected a fault, as a JSON object"),
            (
                "{}",
                "the fault has no effect: expected status, delay, cut, garbage or act_then_reset",
            ),
            (
                r#"{"status": 503, "garbage": true}"#,
                "the fault has more than one effect: expected one of",
            ),
            (
                r#"{"status": 101}"#,
                "status: expected a status from 200 to 599",
            ),
            (
                r#"{"status": "503"}"#,
                "status: expected a status from 200 to 599",
            ),
            (
                r#"{"status": 503, "retry_after": "\n"}"#,
                "retry_after: expected a valid header value",
            ),
            (
                r#"{"status": 503, "retry_after": []}"#,
                "retry_after: expected a number of seconds, or text",
            ),
            (
                r#"{"status": 503, "body": 5}"#,
                "body: expected a string, or an object or array",
            ),
            (
                r#"{"delay": -1}"#,
                "delay: expected a number of seconds from 0 to 3600",
            ),
            (r#"{"delay": 3601}"#, "delay: expected at most 3600 seconds"),
            (
                r#"{"cut": "after-bytes:+1"}"#,
                "cut: expected before-head, in-head or after-bytes:N",
            ),
            (
                r#"{"cut": "in-head", "how": "rst"}"#,
                "how: expected reset, eof or stall",
            ),
            (r#"{"status": 503, "how": "eof"}"#, "how needs a cut"),
            (
                r#"{"delay": 1, "body": "late"}"#,
                "retry_after and body need a status",
            ),
            (r#"{"garbage": 1}"#, "garbage: expected true or false"),
            (
                r#"{"garbage": true, "times": 0}"#,
                "times: expected at least 1",
            ),
            (
                r#"{"garbage": true, "times": -1}"#,
                "times: expected a whole number, 1 or more, or null for no limit",
            ),
            (
                r#"{"garbage": true, "after": 0.5}"#,
                "after: expected a whole number, 0 or more",
            ),
            (
                r#"{"garbage": true, "probability": 1.5}"#,
                "probability: expected a number from 0 to 1",
            ),
            (
                r#"{"garbage": true, "method": "A B"}"#,
                "method: expected a method, such as POST",
            ),
            (
                r#"{"garbage": true, "path": "v1"}"#,
                "path: expected a path that begins with a slash",
            ),
            (
                r#"{"garbage": true, "reason": ""}"#,
                "unknown field: expected status, retry_after,",
            ),
        ] {
            let error = Fault::from_json(json).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{json}: {error}");
        }
        for header in ["", "503", "times=2; garbage", "status 503", "\u{e9}=1"] {
            let error = Play::from_header(header.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("expected name=value"),
                "{header}: {error}"
            );
        }
        let play = |header: &str| Play::from_header(header.as_bytes()).unwrap().to_string();
        assert_eq!(play(" delay=0.5 ;garbage"), play("delay=0.5; garbage=true"));
        assert_eq!(
            play("status=503;retry_after=Wed, 21 Oct 2026 07:28:00 GMT"),
            "status=503; retry_after=Wed, 21 Oct 2026 07:28:00 GMT"
        );
    }
}
