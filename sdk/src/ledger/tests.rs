use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const SERVICE: &str = "https://deals.example.com/";

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("agents.ndjson");
    (folder, path)
}

fn open(path: &Path) -> Ledger {
    Ledger::open(path, SERVICE).unwrap()
}

fn refused(path: &Path) -> LedgerError {
    Ledger::open(path, SERVICE).unwrap_err()
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

/// One step of a row: its key, and what became of it; `None` is an intent.
type Step = (&'static str, Option<State>);

/// Does the steps, and says where the file ended after each.
async fn write(ledger: &mut Ledger, path: &Path, steps: &[Step]) -> Vec<u64> {
    let mut ends = Vec::new();
    for (key, outcome) in steps {
        let hash = ledger.hasher.hash(key);
        match outcome {
            None => ledger.writer().intend(hash).await.unwrap(),
            Some(state) => ledger.writer().record(hash, state).unwrap(),
        }
        ends.push(fs::metadata(path).unwrap().len());
    }
    ends
}

/// What is known of a key, in a run after.
fn known(ledger: &mut Ledger, key: &str) -> Option<State> {
    match ledger.claim(key, 0) {
        Claim::New(_) => None,
        Claim::Known(_, state) => Some(state),
        Claim::Duplicate(first) => panic!("claimed by {first}"),
    }
}

fn job() -> Vec<Step> {
    vec![
        ("a", None),
        ("b", None),
        ("a", Some(created("a_1"))),
        ("c", None),
        ("b", Some(rejected(422))),
        ("d", None),
        ("c", Some(State::NotSent)),
        ("e", None),
        ("d", Some(UNKNOWN)),
        ("f", None),
        ("f", Some(State::Created { id: None })),
        // A later run, which sends again what was not sent, and what nobody knew of.
        ("c", None),
        ("c", Some(created("a_2 \"\\\u{2028}\n"))),
        ("d", None),
        ("d", Some(State::NotSent)),
    ]
}

/// What steps say of each key, worked out from all of them at once: whether any attempt made an agent, whether any may
/// have, and else what the last one came to.
fn said(steps: &[Step]) -> BTreeMap<&'static str, State> {
    let mut attempts: BTreeMap<&str, Vec<Option<&State>>> = BTreeMap::new();
    for (key, outcome) in steps {
        let attempts = attempts.entry(key).or_default();
        match outcome {
            None => attempts.push(None),
            Some(state) => *attempts.last_mut().unwrap() = Some(state),
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
        let last = attempts.last().copied().flatten();
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
        // Opening writes and syncs, so not at every byte.
        if length % 13 != 0 && length.abs_diff(header) > 1 {
            continue;
        }
        fs::write(&cut, &whole[..length]).unwrap();
        write(
            &mut open(&cut),
            &cut,
            &[("new", None), ("new", Some(created("a_3")))],
        )
        .await;
        let mut ledger = open(&cut);
        assert_eq!(known(&mut ledger, "new"), Some(created("a_3")));
        for key in ["a", "b", "c", "d", "e", "f"] {
            // Without the whole salt there was nothing else, either.
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
    let outcome = prop_oneof![
        Just(None),
        Just(Some(created("a_1"))),
        Just(Some(rejected(422))),
        Just(Some(State::NotSent)),
        Just(Some(UNKNOWN)),
    ];
    let attempt = (prop::sample::select(vec!["a", "b", "c"]), outcome);
    prop::collection::vec(attempt, 0..12).prop_map(|attempts| {
        let mut steps = Vec::new();
        for (key, outcome) in attempts {
            steps.push((key, None));
            steps.extend(outcome.map(|outcome| (key, Some(outcome))));
        }
        steps
    })
}

proptest! {
    #[test]
    fn what_may_have_acted_is_never_forgotten(steps in steps()) {
        let mut entries = Entries::new();
        let hasher = Hasher::new(&[0; 32]);
        for (key, outcome) in &steps {
            let entry = entries.entry(hasher.hash(key)).or_default();
            match outcome {
                None => entry.intend(),
                Some(state) => entry.settle(state.clone()),
            }
        }
        let expected = said(&steps);
        for key in ["a", "b", "c"] {
            let found = entries.get(&hasher.hash(key)).and_then(Entry::state);
            // Of several agents, the first is as good as the last.
            prop_assert_eq!(found, expected.get(key));
        }
    }

    #[test]
    fn no_file_makes_it_panic(contents in prop::collection::vec(any::<u8>(), 0..200), is_after_header in any::<bool>()) {
        let mut file = Vec::new();
        if is_after_header {
            file.extend(format::Header::new(SERVICE).unwrap().to_line().into_bytes());
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
    write(&mut open(&path), &path, &[("a", None)]).await;
    let mut ledger = open(&path);
    assert!(matches!(ledger.claim("a", 7), Claim::Known(_, UNKNOWN)));
    assert_eq!(ledger.claim("a", 8), Claim::Duplicate(7));
}

#[tokio::test]
async fn no_key_stands_in_the_file() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("ada@example.com", None)]).await;
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
    // Test case 1 of RFC 4231, whose key of 20 bytes stands for the same with zeros after it.
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
        error.to_string().contains("another job is writing it"),
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
    let error = Ledger::open(&path, "https://other.example.com/").unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherService);
    let text = error.to_string();
    assert!(
        text.contains(SERVICE) && text.contains("https://other.example.com/"),
        "{text}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
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
            text.starts_with(r#"{"format":"dealkit-ledger","version":"1.0","salt":""#),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_and_a_newer_minor_version_is_read() {
    let (_folder, path) = folder();
    write(&mut open(&path), &path, &[("a", None)]).await;
    let text = fs::read_to_string(&path).unwrap();

    fs::write(&path, text.replace(r#""1.0""#, r#""2.0""#)).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), LedgerErrorKind::NewerFormat);
    assert!(error.to_string().contains("update dealkit"), "{error}");

    let later = text
        .replace(r#""1.0""#, r#""1.7","by":{"name":"x"}"#)
        .replace(
            r#""type":"intent""#,
            r#""type":"intent","attempt":{"number":1}"#,
        );
    fs::write(&path, later + "{\"type\":\"note\",\"text\":\"later\"}\n").unwrap();
    let mut ledger = open(&path);
    assert_eq!(known(&mut ledger, "a"), Some(UNKNOWN));
    write(&mut ledger, &path, &[("a", Some(created("a_1")))]).await;
    drop(ledger);
    assert_eq!(known(&mut open(&path), "a"), Some(created("a_1")));
}

#[tokio::test]
async fn a_broken_line_in_the_middle_is_named() {
    let (_folder, path) = folder();
    write(
        &mut open(&path),
        &path,
        &[("a", None), ("a", Some(created("a_1"))), ("b", None)],
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

#[tokio::test]
async fn zeros_in_the_place_of_what_never_reached_the_disk_are_cut_off_at_the_end_and_named_elsewhere()
 {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    let steps = [("a", None), ("b", None), ("a", Some(created("a_1")))];
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
    // Nobody knows whether what stood there had been sent.
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
        ("a", None),
        ("a", Some(created(&long))),
        ("b", None),
        ("b", Some(state)),
        ("c", None),
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
