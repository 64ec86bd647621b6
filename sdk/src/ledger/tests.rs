use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::{format::Line, *};
use crate::value::AgentId;

const SERVICE: &str = "https://deals.example.com";

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("agents.ndjson");
    (folder, path)
}

fn open(path: &Path) -> Ledger {
    Ledger::open(path, SERVICE, None).unwrap()
}

fn refused(path: &Path) -> LedgerError {
    Ledger::open(path, SERVICE, None).unwrap_err()
}

fn created(id: &str) -> State {
    State::Created {
        id: Some(id.to_owned()),
    }
}

fn rejected(status: u16) -> State {
    State::Rejected {
        status: Some(status),
        request_id: Some("r-1".to_owned()),
    }
}

const UNKNOWN: State = State::Unknown {
    status: None,
    request_id: None,
};

/// One step of a row: its key, and what happened.
type Step = (&'static str, Event);

#[derive(Clone, Debug)]
enum Event {
    Intent,
    Outcome(State),
    /// Somebody has looked it up, and found this agent, or none.
    Settled(Option<&'static str>),
}

use Event::{Intent, Outcome, Settled};

/// Performs the steps, and returns where the file ended after each.
async fn write(ledger: &mut Ledger, path: &Path, steps: &[Step]) -> Vec<u64> {
    let mut ends = Vec::new();
    for (key, event) in steps {
        let hash = ledger.hasher.hash(key);
        match event {
            Intent => ledger.writer().intend(hash).await.unwrap(),
            Outcome(state) => ledger.writer().record(hash, state).unwrap(),
            Settled(id) => {
                let line = Line::Settled(hash, id.map(Cow::from));
                ledger.file.handle().append(&line).unwrap();
            }
        }
        ends.push(fs::metadata(path).unwrap().len());
    }
    ends
}

/// What a later run knows of a key.
fn known(ledger: &mut Ledger, key: &str) -> Option<State> {
    match ledger.claim(key, 0) {
        Claim::New(_) => None,
        Claim::Known(_, state) => Some(state),
        Claim::Duplicate(first) => panic!("claimed by {first}"),
    }
}

fn job() -> Vec<Step> {
    vec![
        ("a", Intent),
        ("b", Intent),
        ("a", Outcome(created("a_1"))),
        ("c", Intent),
        ("b", Outcome(rejected(422))),
        ("d", Intent),
        ("c", Outcome(State::NotSent)),
        ("e", Intent),
        ("d", Outcome(UNKNOWN)),
        ("f", Intent),
        ("f", Outcome(State::Created { id: None })),
        // A later run, which sends again what was not sent, and what was unknown.
        ("c", Intent),
        ("c", Outcome(created("a_2 \"\\\u{2028}\n"))),
        ("d", Intent),
        ("d", Outcome(State::NotSent)),
        // Somebody has looked them up, and a later run sends again where there was no agent.
        ("e", Settled(Some("a_3"))),
        ("f", Settled(Some("a_4"))),
        ("d", Settled(None)),
        ("b", Settled(None)),
        ("d", Intent),
        ("d", Outcome(rejected(409))),
        ("b", Intent),
    ]
}

/// What the steps say of each key, derived from all of them at once: whether any attempt made an agent, whether any
/// may have, and otherwise the outcome of the last one.
fn said(steps: &[Step]) -> BTreeMap<&'static str, State> {
    let mut attempts: BTreeMap<&str, Vec<Option<State>>> = BTreeMap::new();
    for (key, event) in steps {
        let attempts = attempts.entry(key).or_default();
        let made = attempts
            .iter()
            .position(|attempt| matches!(attempt, Some(State::Created { .. })));
        match (made, event) {
            (Some(made), Settled(Some(id)))
                if attempts[made] == Some(State::Created { id: None }) =>
            {
                attempts[made] = Some(created(id));
            }
            // Nothing undoes a create.
            (Some(_), _) => {}
            (None, Intent) => attempts.push(None),
            (None, Outcome(state)) => *attempts.last_mut().unwrap() = Some(state.clone()),
            (None, Settled(Some(id))) => attempts.push(Some(created(id))),
            (None, Settled(None)) => *attempts = vec![Some(State::NotSent)],
        }
    }
    let summed_up = attempts.into_iter().map(|(key, attempts)| {
        let made = attempts
            .iter()
            .flatten()
            .find(|state| matches!(state, State::Created { .. }));
        let is_in_doubt = attempts
            .iter()
            .any(|attempt| matches!(attempt, None | Some(State::Unknown { .. })));
        let last = attempts.last().and_then(Option::as_ref);
        let state = match (made, is_in_doubt) {
            (Some(made), _) => (*made).clone(),
            (None, true) => match last {
                Some(last @ State::Unknown { .. }) => last.clone(),
                _ => UNKNOWN,
            },
            (None, false) => last.unwrap().clone(),
        };
        (key, state)
    });
    summed_up.collect()
}

#[tokio::test]
async fn a_ledger_cut_at_any_byte_has_every_line_that_was_written_whole() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    let header = fs::metadata(&path).unwrap().len() as usize;
    let hasher = ledger.hasher.clone();
    let steps = job();
    let ends = write(&mut ledger, &path, &steps).await;
    drop(ledger);
    let whole = fs::read(&path).unwrap();

    let cut = path.with_extension("cut");
    for length in 0..=whole.len() {
        // A line is whole without its line break.
        let count = ends.iter().filter(|end| **end <= length as u64 + 1).count();
        let expected = said(&steps[..count]);
        let contents = file::Contents::read(&whole[..length]).unwrap();
        assert_eq!(contents.entries.len(), expected.len());
        for (key, state) in &expected {
            let entry = contents.entries.get(&hasher.hash(key));
            assert_eq!(
                entry.and_then(Entry::state),
                Some(state),
                "{key} of {length} bytes"
            );
        }
        // Opening writes and syncs, so this is not done at every byte.
        if length % 13 != 0 && length.abs_diff(header) > 1 {
            continue;
        }
        fs::write(&cut, &whole[..length]).unwrap();
        write(
            &mut open(&cut),
            &cut,
            &[("new", Intent), ("new", Outcome(created("a_3")))],
        )
        .await;
        let mut ledger = open(&cut);
        assert_eq!(known(&mut ledger, "new"), Some(created("a_3")));
        for key in ["a", "b", "c", "d", "e", "f"] {
            // Without the whole salt there was nothing else either.
            assert_eq!(
                known(&mut ledger, key).as_ref(),
                expected.get(key),
                "{key} of {length} bytes"
            );
        }
        let text = fs::read_to_string(&cut).unwrap();
        assert!(text.ends_with('\n'));
        assert_eq!(text.lines().count(), 1 + count + 2, "{length} bytes");
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let events = prop_oneof![
        Just(vec![Intent]),
        prop_oneof![
            Just(created("a_1")),
            Just(State::Created { id: None }),
            Just(rejected(422)),
            Just(State::NotSent),
            Just(UNKNOWN),
        ]
        .prop_map(|outcome| vec![Intent, Outcome(outcome)]),
        Just(vec![Settled(Some("a_2"))]),
        Just(vec![Settled(None)]),
    ];
    let attempt = (prop::sample::select(vec!["a", "b", "c"]), events);
    prop::collection::vec(attempt, 0..12).prop_map(|attempts| {
        let steps = attempts
            .into_iter()
            .flat_map(|(key, events)| events.into_iter().map(move |event| (key, event)));
        steps.collect()
    })
}

proptest! {
    #[test]
    fn what_may_have_acted_is_never_forgotten(steps in steps()) {
        let mut entries = Entries::new();
        let hasher = Hasher::new(&[0; 32]);
        for (key, event) in &steps {
            let entry = entries.entry(hasher.hash(key)).or_default();
            match event {
                Intent => entry.intend(),
                Outcome(state) => entry.record(state.clone()),
                Settled(id) => entry.settle(id.map(str::to_owned)),
            }
        }
        let expected = said(&steps);
        for key in ["a", "b", "c"] {
            let found = entries.get(&hasher.hash(key)).and_then(Entry::state);
            // If there are several agents, the first is as good as the last.
            prop_assert_eq!(found, expected.get(key));
        }
    }

    #[test]
    fn no_file_makes_it_panic(contents in prop::collection::vec(any::<u8>(), 0..200), is_after_header in any::<bool>()) {
        let mut file = Vec::new();
        if is_after_header {
            file.extend(format::Header::new(SERVICE, None).unwrap().to_line().into_bytes());
        }
        file.extend(contents);
        let _ = file::Contents::read(&*file);
    }
}

#[test]
fn a_key_is_claimed_once() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    assert!(matches!(ledger.claim("a", 0), Claim::New(_)));
    assert!(matches!(ledger.claim("b", 1), Claim::New(_)));
    assert_eq!(ledger.claim("a", 2), Claim::Duplicate(0));
    assert_eq!(ledger.claim("a", 3), Claim::Duplicate(0));
}

#[tokio::test]
async fn a_claim_holds_for_keys_of_earlier_runs() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("a", Intent)]).await;
    let mut ledger = open(&path);
    assert!(matches!(ledger.claim("a", 7), Claim::Known(_, UNKNOWN)));
    assert_eq!(ledger.claim("a", 8), Claim::Duplicate(7));
}

#[tokio::test]
async fn no_key_stands_in_the_file() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("ada@example.com", Intent)]).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("@example.com"), "{text}");
    assert!(text.contains(SERVICE));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn a_hash_is_that_of_the_standard() {
    // Test case 1 of RFC 4231, whose 20-byte key is equivalent to the same key padded with zeros.
    let mut key = [0; 32];
    key[..20].fill(0x0b);
    let hash = format!("{:?}", Hasher::new(&key).hash("Hi There"));
    assert_eq!(
        hash,
        "KeyHash(b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7)"
    );
}

#[test]
fn two_ledgers_have_nothing_in_common() {
    let (_folder, path) = folder();
    let other = path.with_extension("other");
    assert_ne!(open(&path).claim("a", 0), open(&other).claim("a", 0));
}

#[test]
fn a_second_job_is_refused_until_the_first_has_ended() {
    let (_folder, path) = folder();
    let first = open(&path);
    let error = refused(&path);
    assert_eq!(error.kind(), LedgerErrorKind::InUse);
    assert!(
        error.to_string().contains("another job is writing to it"),
        "{error}"
    );
    drop(first);
    open(&path);
}

#[test]
fn a_ledger_of_another_service_is_refused_and_stays_as_it_is() {
    let (_folder, path) = folder();
    drop(open(&path));
    let before = fs::read(&path).unwrap();
    let error = Ledger::open(&path, "https://other.example.com", None).unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherService);
    let text = error.to_string();
    assert!(
        text.contains(SERVICE) && text.contains("https://other.example.com"),
        "{text}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_service_is_the_same_however_its_url_was_written() {
    let (_folder, path) = folder();
    drop(open(&path));
    let text = fs::read_to_string(&path).unwrap();
    for written in [
        "https://DEALS.example.com:443/",
        "https://deals.example.com//",
    ] {
        let by_other_hands = text.replace(SERVICE, written);
        assert_ne!(by_other_hands, text);
        fs::write(&path, by_other_hands).unwrap();
        drop(open(&path));
    }
}

#[tokio::test]
async fn a_ledger_that_was_moved_is_that_of_the_new_service_alone() {
    const NEW: &str = "https://new.example.com";
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("a", Intent)]).await;
    let before = fs::read(&path).unwrap();
    for wrong in [
        "",
        "new.example.com",
        "ftp://new.example.com",
        "https://new.example.com/v1",
    ] {
        let error = move_to(&path, wrong).unwrap_err();
        assert_eq!(
            (error.kind(), error.index()),
            (LedgerErrorKind::Refused, None)
        );
        assert!(error.to_string().contains("base_url"), "{error}");
    }
    // Moves it to the URL that it already has.
    move_to(&path, "https://Deals.example.com:443/").unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);

    move_to(&path, "https://NEW.example.com/").unwrap();
    assert_eq!(refused(&path).kind(), LedgerErrorKind::OtherService);
    let mut ledger = Ledger::open(&path, NEW, None).unwrap();
    assert_eq!(known(&mut ledger, "a"), Some(UNKNOWN));
    drop(ledger);
    move_to(&path, SERVICE).unwrap();
    drop(open(&path));
}

#[tokio::test]
async fn keys_of_another_name_are_refused_once_there_are_rows() {
    let (_folder, path) = folder();
    let open_with = |keys: Option<&str>| Ledger::open(&path, SERVICE, keys);
    drop(open_with(Some("e-mail")).unwrap());
    // There are no rows yet, so nobody could be created a second time.
    let mut ledger = open_with(Some("email")).unwrap();
    write(&mut ledger, &path, &[("a", Intent)]).await;
    drop(ledger);
    let before = fs::read(&path).unwrap();
    let error = open_with(Some("external_id")).unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherKeys);
    let text = error.to_string();
    assert!(
        text.contains(
            r#"its keys are called "email", and those of this job "external_id". Nothing was sent"#
        ),
        "{text}"
    );
    for keys in [Some("email"), None] {
        assert_eq!(known(&mut open_with(keys).unwrap(), "a"), Some(UNKNOWN));
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_ledger_whose_keys_have_no_name_takes_the_first_that_a_job_gives_them() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("a", Intent)]).await;
    // As in the first version of the format.
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("keys"));
    fs::write(
        &path,
        text.replace(r#""version":"1.1""#, r#""version":"1.0""#),
    )
    .unwrap();
    drop(Ledger::open(&path, SERVICE, Some("email")).unwrap());
    let error = Ledger::open(&path, SERVICE, Some("phone")).unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherKeys);
    assert_eq!(known(&mut open(&path), "a"), Some(UNKNOWN));
}

#[tokio::test]
async fn what_was_found_out_is_what_the_next_run_goes_by() {
    let (_folder, path) = folder();
    let steps = [
        ("a", Intent),
        ("b", Intent),
        ("c", Intent),
        ("c", Outcome(rejected(422))),
        ("d", Intent),
        ("d", Outcome(State::Created { id: None })),
        ("e", Intent),
        ("e", Outcome(rejected(409))),
        ("f", Intent),
    ];
    write(&mut open(&path), &path, &steps).await;
    let found = || {
        let ids =
            [Some("a_1"), None, None, Some("a_4"), Some("a_5")].map(|id| id.map(AgentId::from));
        ["a", "b", "c", "d", "e"].into_iter().zip(ids)
    };
    settle(&path, found()).unwrap();
    let settled = fs::read(&path).unwrap();
    // Settling the same again adds nothing.
    settle(&path, found()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), settled);
    let mut ledger = open(&path);
    for (key, state) in [
        ("a", created("a_1")),
        ("b", State::NotSent),
        ("c", State::NotSent),
        ("d", created("a_4")),
        ("e", created("a_5")),
        ("f", UNKNOWN),
    ] {
        assert_eq!(known(&mut ledger, key), Some(state), "{key}");
    }
    // A row that somebody settled as having no agent, and for which they then found one.
    drop(ledger);
    settle(&path, [("b", Some(AgentId::from("a_2")))]).unwrap();
    let mut ledger = open(&path);
    assert_eq!(known(&mut ledger, "b"), Some(created("a_2")));
    // A row that is sent again after that has an outcome of its own.
    write(
        &mut ledger,
        &path,
        &[("c", Intent), ("c", Outcome(rejected(422)))],
    )
    .await;
    drop(ledger);
    assert_eq!(known(&mut open(&path), "c"), Some(rejected(422)));
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_its_place_and_nothing_is_written() {
    let (_folder, path) = folder();
    let steps = [
        ("a@example.com", Intent),
        ("b@example.com", Intent),
        ("b@example.com", Outcome(created("a_1"))),
        ("c@example.com", Intent),
        ("c@example.com", Outcome(State::Created { id: None })),
    ];
    write(&mut open(&path), &path, &steps).await;
    let before = fs::read(&path).unwrap();
    let a = ("a@example.com", None);
    let cases = [
        (("x@example.com", None), "its key is not in the ledger"),
        (("", None), "its key is not in the ledger"),
        (
            ("a@example.com", Some("a_9")),
            "the one at index 0 has the same key",
        ),
        (
            ("b@example.com", None),
            "records that its agent was created",
        ),
        (
            ("b@example.com", Some("a_9")),
            "records that its agent was created",
        ),
        (
            ("c@example.com", None),
            "records that its agent was created",
        ),
        (("c@example.com", Some("")), "identifier is empty"),
    ];
    for (entry, what) in cases {
        let found = [a, entry].map(|(key, id): (_, Option<&str>)| (key, id.map(AgentId::from)));
        let error = settle(&path, found).unwrap_err();
        assert_eq!(
            (error.kind(), error.index()),
            (LedgerErrorKind::Refused, Some(1))
        );
        let text = error.to_string();
        assert!(
            text.contains("the entry at index 1 cannot be settled"),
            "{text}"
        );
        assert!(
            text.contains(what) && !text.contains("@example.com"),
            "{text}"
        );
        assert!(!format!("{error:?}").contains("@example.com"));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    let nobody: [(&str, Option<AgentId>); 0] = [];
    settle(&path, nobody).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn only_a_ledger_that_is_there_and_free_can_be_noted_in() {
    let (_folder, path) = folder();
    let note = || {
        let settled = settle(&path, [("a", None)]).unwrap_err();
        let moved = move_to(&path, SERVICE).unwrap_err();
        assert_eq!(settled.to_string(), moved.to_string());
        settled
    };
    let missing = note();
    assert_eq!(missing.kind(), LedgerErrorKind::Io);
    assert!(
        missing.to_string().ends_with("; name the ledger of a job"),
        "{missing}"
    );
    assert!(!path.exists());
    for contents in ["", "{\"format\":\"deal", "key,agent_id\n"] {
        fs::write(&path, contents).unwrap();
        assert_eq!(note().kind(), LedgerErrorKind::NotALedger);
        assert_eq!(fs::read_to_string(&path).unwrap(), contents);
    }
    fs::remove_file(&path).unwrap();
    let job = open(&path);
    assert_eq!(note().kind(), LedgerErrorKind::InUse);
    drop(job);
    move_to(&path, SERVICE).unwrap();
}

#[tokio::test]
async fn notes_come_after_the_last_whole_line() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("a", Intent), ("b", Intent)]).await;
    let whole = fs::read(&path).unwrap();
    for (cut, of_b) in [(1, Some(UNKNOWN)), (7, None)] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        settle(&path, [("a", None)]).unwrap();
        let mut ledger = open(&path);
        assert_eq!(known(&mut ledger, "a"), Some(State::NotSent));
        assert_eq!(known(&mut ledger, "b"), of_b);
    }
}

#[test]
fn what_is_not_a_ledger_is_refused_and_stays_as_it_is() {
    let (_folder, path) = folder();
    for contents in [
        "id,email\n1,ada@example.com\n".to_owned(),
        "{}".to_owned(),
        "{}\n".to_owned(),
        "\n".to_owned(),
        "null\n".to_owned(),
        r#"{"format":"dealkit","version":"1.0"}"#.to_owned(),
        r#"{"format":"dealkit-ledger","version":"one"}"#.to_owned() + "\n",
        "x".repeat(2 << 20),
    ] {
        fs::write(&path, &contents).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), LedgerErrorKind::NotALedger, "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), contents);
    }
    assert_eq!(refused(path.parent().unwrap()).kind(), LedgerErrorKind::Io);
}

#[test]
fn an_empty_file_becomes_a_ledger_and_so_does_the_beginning_of_one() {
    let (_folder, path) = folder();
    for contents in ["", "{", r#"{"format":"dealkit-ledger","vers"#, "\0\0\0"] {
        fs::write(&path, contents).unwrap();
        drop(open(&path));
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with(r#"{"format":"dealkit-ledger","version":"1.1","salt":""#),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_and_a_newer_minor_version_is_read() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("a", Intent)]).await;
    let text = fs::read_to_string(&path).unwrap();

    fs::write(&path, text.replace(r#""1.1""#, r#""2.0""#)).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), LedgerErrorKind::NewerFormat);
    assert!(error.to_string().contains("update dealkit"), "{error}");

    let later = text
        .replace(r#""1.1""#, r#""1.7","by":{"name":"x"}"#)
        .replace(
            r#""type":"intent""#,
            r#""type":"intent","attempt":{"number":1}"#,
        );
    fs::write(&path, later + "{\"type\":\"note\",\"text\":\"later\"}\n").unwrap();
    let mut ledger = open(&path);
    assert_eq!(known(&mut ledger, "a"), Some(UNKNOWN));
    write(&mut ledger, &path, &[("a", Outcome(created("a_1")))]).await;
    drop(ledger);
    assert_eq!(known(&mut open(&path), "a"), Some(created("a_1")));
}

#[tokio::test]
async fn a_broken_line_in_the_middle_is_named() {
    let (_folder, path) = folder();
    write(
        &mut open(&path),
        &path,
        &[("a", Intent), ("a", Outcome(created("a_1"))), ("b", Intent)],
    )
    .await;
    let text = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        (r#""outcome":"created""#, r#""outcome":"made""#),
        (r#""outcome":"created","#, ""),
        (r#""type":"outcome""#, r#""type":"outcome"#),
        (r#","outcome""#, r#"0,"outcome""#),
        (r#"{"type":"outcome""#, r#"["type":"outcome""#),
        (r#"{"type":"outcome""#, "\n{\"type\":\"outcome\""),
    ] {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text);
        fs::write(&path, &broken).unwrap();
        let error = refused(&path);
        assert_eq!(
            (error.kind(), error.line()),
            (LedgerErrorKind::Broken, Some(3)),
            "{error}"
        );
        assert!(
            error.to_string().contains("line 3 cannot be read"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), broken);
    }
}

#[test]
fn a_broken_line_of_the_types_that_came_later_is_named_too() {
    let (_folder, path) = folder();
    drop(open(&path));
    let header = fs::read_to_string(&path).unwrap();
    let key = "0".repeat(64);
    for line in [
        format!(r#"{{"type":"settled","key":"{key}"}}"#),
        format!(r#"{{"type":"settled","key":"{key}","outcome":"created"}}"#),
        format!(r#"{{"type":"settled","key":"{key}","outcome":"none","agent_id":"a_1"}}"#),
        format!(r#"{{"type":"settled","key":"{key}","outcome":"unknown"}}"#),
        r#"{"type":"settled","outcome":"none"}"#.to_owned(),
        r#"{"type":"service"}"#.to_owned(),
        r#"{"type":"service","service":5}"#.to_owned(),
        r#"{"type":"keys","keys":null}"#.to_owned(),
    ] {
        fs::write(&path, format!("{header}{line}\n")).unwrap();
        let error = refused(&path);
        assert_eq!(
            (error.kind(), error.line()),
            (LedgerErrorKind::Broken, Some(2)),
            "{line}"
        );
    }
}

#[tokio::test]
async fn zeros_in_the_place_of_what_never_reached_the_disk_are_cut_off_at_the_end_and_named_elsewhere()
 {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    let steps = [("a", Intent), ("b", Intent), ("a", Outcome(created("a_1")))];
    let ends = write(&mut ledger, &path, &steps).await;
    drop(ledger);
    let whole = fs::read(&path).unwrap();
    let last = ends[1] as usize..ends[2] as usize;
    for begin in last.clone() {
        let mut zeroed = whole.clone();
        zeroed[begin..].fill(0);
        zeroed.resize(8192, 0);
        fs::write(&path, &zeroed).unwrap();
        assert_eq!(known(&mut open(&path), "a"), Some(UNKNOWN));
        assert_eq!(fs::metadata(&path).unwrap().len(), ends[1]);
    }
    // Nobody knows whether what was there had been sent.
    let mut zeroed = whole;
    zeroed[ends[0] as usize + 5..ends[1] as usize + 5].fill(0);
    fs::write(&path, &zeroed).unwrap();
    let error = refused(&path);
    assert_eq!(
        (error.kind(), error.line()),
        (LedgerErrorKind::Broken, Some(3))
    );
}

#[cfg(unix)]
#[test]
fn what_the_system_refuses_is_said_with_what_to_do() {
    let (folder, _) = folder();
    let missing = refused(&folder.path().join("none/agents.ndjson"));
    assert_eq!(missing.kind(), LedgerErrorKind::Io);
    assert!(
        missing.to_string().contains("create the folder first"),
        "{missing}"
    );
    assert_eq!(refused(folder.path()).kind(), LedgerErrorKind::Io);
    assert_eq!(
        refused(Path::new("/dev/null")).kind(),
        LedgerErrorKind::NotALedger
    );
    assert_eq!(refused(Path::new("")).kind(), LedgerErrorKind::Io);
}

#[tokio::test]
async fn many_intents_wait_together() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    let writer = ledger.writer();
    let hashes = (0..200).map(|row| match ledger.claim(&row.to_string(), row) {
        Claim::New(hash) => hash,
        claim => panic!("{claim:?}"),
    });
    let intents = hashes
        .collect::<Vec<_>>()
        .into_iter()
        .map(|hash| writer.intend(hash));
    for intended in futures_util::future::join_all(intents).await {
        intended.unwrap();
    }
    drop((ledger, writer));
    let mut ledger = open(&path);
    assert!((0..200).all(|row| known(&mut ledger, &row.to_string()) == Some(UNKNOWN)));
}

#[tokio::test]
async fn an_identifier_that_is_too_long_is_left_out() {
    let (_folder, path) = folder();
    let long = "\u{1}".repeat(65 * 1024);
    let state = State::Rejected {
        status: Some(409),
        request_id: Some(long.clone()),
    };
    let steps = [
        ("a", Intent),
        ("a", Outcome(created(&long))),
        ("b", Intent),
        ("b", Outcome(state)),
        ("c", Intent),
    ];
    write(&mut open(&path), &path, &steps).await;
    let mut ledger = open(&path);
    assert_eq!(known(&mut ledger, "a"), Some(State::Created { id: None }));
    assert_eq!(
        known(&mut ledger, "b"),
        Some(State::Rejected {
            status: Some(409),
            request_id: None
        })
    );
    assert_eq!(known(&mut ledger, "c"), Some(UNKNOWN));
}
