use std::fs;

use dealkit::{
    ErrorKind,
    Outcome::{NotSent, Succeeded},
};
use rusqlite::Connection;

use super::*;

#[test]
fn files_that_are_no_ledgers_are_rejected_and_left_unchanged() {
    let (folder, ledger) = new_ledger();
    let client = client("https://deals.example.com");
    let open = |ledger: &Ledger| open(&client, ledger, None);
    let other = folder.path().join("other.db");
    let database = Connection::open(&other).unwrap();
    database
        .execute_batch("CREATE TABLE creates (key)")
        .unwrap();
    drop(database);
    for content in [
        Vec::new(),
        b"email,first_name\nada@example.com,Ada\n".to_vec(),
        br#"{"format":"dealkit-ledger","version":"1.1"}"#.to_vec(),
        fs::read(&other).unwrap(),
        vec![0; 5000],
    ] {
        fs::write(ledger.path().unwrap(), &content).unwrap();
        assert_eq!(kind(open(&ledger)), LedgerErrorKind::NotALedger);
        assert_eq!(kind(ledger.summary()), LedgerErrorKind::NotALedger);
        assert_eq!(fs::read(ledger.path().unwrap()).unwrap(), content);
    }
    let at = |path: &str| Ledger::sqlite(folder.path().join(path));
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    for (ledger, expected) in [
        (at(""), LedgerErrorKind::NotALedger),
        #[cfg(unix)]
        (at("link"), LedgerErrorKind::Io),
        (at("none/agents.ledger"), LedgerErrorKind::Io),
    ] {
        assert_eq!(kind(open(&ledger)), expected, "{ledger}");
    }
    let missing = at("none/agents.ledger");
    assert_eq!(missing.look_up(None, ["a"]).unwrap(), [None]);
    assert_eq!(kind(missing.summary()), LedgerErrorKind::Io);
    let error = missing.resolve([("a", None)]).unwrap_err();
    assert!(error.to_string().contains("name the ledger of a job"));
    // Any part of a URL that is not parsed may be the password.
    let url = Ledger::sqlite("PostgreSQL://ada:sesame@localhost/x");
    let error = open(&url).unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
    let message = error.to_string();
    assert!(
        message.contains("Ledger::postgres") && !message.contains("backup"),
        "{message}"
    );
    assert!(!format!("{error} {error:?} {url} {url:?}").contains("sesame"));
    assert!(Ledger::in_folder(folder.path()).unwrap().is_empty());
}

#[test]
fn the_next_job_removes_files_left_by_a_killed_job() {
    let (folder, ledger) = new_ledger();
    let (leftovers, others) = (
        [
            "agents.ledger-job-00000000000000aa",
            "agents.ledger-job-00000000000000ab-new",
        ],
        ["agents.ledger-job-", "other-job-00000000000000aa"],
    );
    let client = client("http://127.0.0.1:9");
    open(&client, &ledger, None).unwrap();
    for name in leftovers.iter().chain(&others) {
        fs::write(folder.path().join(name), "").unwrap();
    }
    open(&client, &ledger, None).unwrap();
    let left = fs::read_dir(&folder).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| name != "agents.ledger" && name != "agents.ledger-journal");
    left.sort();
    assert_eq!(left, others);
}

/// Creates every other row, and leaves the rest unresolved.
fn create_every_other(number: usize) -> Reply {
    [Reply::Create, Reply::Status(503)][number % 2]
}

#[tokio::test]
async fn changes_by_other_programs_are_detected() {
    let (folder, whole, _) = make_ledger(10, create_every_other).await;
    let ledger = Ledger::sqlite(folder.path().join("changed"));
    for change in [
        "UPDATE ledger SET salt = zeroblob(32)",
        "UPDATE ledger SET keys = 'email'",
        "UPDATE ledger SET service = 'https://other.example.com'",
        "UPDATE creates SET state = 'rejected' WHERE state = 'unknown'",
        "UPDATE creates SET state = 'elsewhere' WHERE state = 'unknown'",
        "UPDATE creates SET status = NULL WHERE state = 'unknown'",
        "UPDATE creates SET agent_id = 'a_9' WHERE agent_id = 'a_0'",
        "DELETE FROM creates WHERE agent_id = 'a_0'",
        "DELETE FROM creates",
        "DROP TABLE creates",
        "UPDATE creates SET key = zeroblob(16) WHERE agent_id = 'a_0'",
        "PRAGMA journal_mode = WAL; UPDATE ledger SET sums = zeroblob(1024)",
    ] {
        fs::copy(whole.path().unwrap(), ledger.path().unwrap()).unwrap();
        let database = Connection::open(ledger.path().unwrap()).unwrap();
        database.execute_batch(change).unwrap();
        drop(database);
        assert_eq!(kind(ledger.summary()), LedgerErrorKind::Broken, "{change}");
    }
    // Damaged ledgers are found in a folder, too, and so are ledgers of a later version.
    let database = Connection::open(whole.path().unwrap()).unwrap();
    database.pragma_update(None, "user_version", 3).unwrap();
    drop(database);
    assert_eq!(kind(whole.summary()), LedgerErrorKind::NewerFormat);
    let found = Ledger::in_folder(folder.path()).unwrap();
    assert_eq!(found, [whole, ledger].map(Ledger::without_waiting));
}

/// The folder has databases of other programs in every state in which SQLite would change or lock them.
#[cfg(unix)]
#[tokio::test]
async fn databases_of_other_programs_are_neither_changed_nor_waited_for() {
    let (folder, ledger, _) = make_ledger(1, create_every_other).await;
    let path = |name: &str| folder.path().join(name);
    // One database has a write-ahead log, one has a hot journal left behind by its program, and one is locked.
    let [wal, hot, locked] = ["wal.db", "hot.db", "locked.db"].map(|name| {
        let database = Connection::open(path(name)).unwrap();
        let tables = "CREATE TABLE other (x); INSERT INTO other VALUES (zeroblob(9000));";
        database.execute_batch(tables).unwrap();
        database
    });
    wal.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO other VALUES (1)")
        .unwrap();
    hot.execute_batch("PRAGMA cache_spill = 1; PRAGMA cache_size = 1; BEGIN")
        .unwrap();
    for _ in 0..50 {
        hot.execute_batch(
            "UPDATE other SET x = randomblob(9000); INSERT INTO other VALUES (zeroblob(9000))",
        )
        .unwrap();
    }
    for name in ["wal.db", "wal.db-wal", "hot.db", "hot.db-journal"] {
        fs::copy(path(name), path(&format!("left-{name}"))).unwrap();
    }
    locked.execute_batch("BEGIN EXCLUSIVE").unwrap();
    fs::write(path("photograph.jpg"), vec![9; 5000]).unwrap();
    // A job was killed while it created a ledger.
    let unfinished = path("other.ledger-job-00000000000000ab-new");
    fs::copy(ledger.path().unwrap(), unfinished).unwrap();
    // Opening the journal would wait for a writer.
    let piped = path("piped.ledger");
    fs::copy(ledger.path().unwrap(), &piped).unwrap();
    let journal = path("piped.ledger-journal");
    let made = std::process::Command::new("mkfifo").arg(&journal).status();
    assert!(made.unwrap().success());
    assert_eq!(
        kind(Ledger::sqlite(&piped).summary()),
        LedgerErrorKind::NotALedger
    );
    fs::remove_file(journal).unwrap();
    fs::remove_file(piped).unwrap();
    let read_files = || {
        let entries = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        // Reading this file here would release the locks of this process.
        let entries = entries.filter(|path| !path.ends_with("locked.db"));
        let mut files: Vec<_> = entries
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        files.sort();
        files
    };
    let before = read_files();
    assert_eq!(
        Ledger::in_folder(folder.path()).unwrap(),
        [ledger.clone().without_waiting()]
    );
    for name in ["left-wal.db", "left-hot.db", "locked.db", "photograph.jpg"] {
        let other = Ledger::sqlite(path(name));
        assert_eq!(kind(other.summary()), LedgerErrorKind::NotALedger);
        assert_eq!(
            kind(open(&client("http://127.0.0.1:9"), &other, None)),
            LedgerErrorKind::NotALedger
        );
    }
    assert!(read_files() == before);
    // This process still has its locks.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;

        let inode = fs::metadata(path("locked.db")).unwrap().ino();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let is_locked = |line: &str| line.contains(&format!(":{inode} ")) && line.contains("WRITE");
        assert!(locks.lines().any(is_locked), "{locks}");
    }
}

#[tokio::test]
async fn a_backup_is_a_consistent_snapshot() {
    let (folder, ledger, mut peer) = make_ledger(3, create_every_other).await;
    let copy = Ledger::sqlite(folder.path().join("copy"));
    let client = peer.client();
    let mut job = client
        .agents()
        .create_many([row(3)])
        .ledger(&ledger, None)
        .stream();
    let request = peer.next_during(job.next()).await;
    ledger.backup(copy.path().unwrap()).unwrap();
    request.answer(201, VALID_BODY);
    assert_eq!(job.next().await.unwrap().outcome(), Succeeded);
    let summary = copy.summary().unwrap();
    let unresolved = summary.unresolved.len();
    assert_eq!(
        (summary.succeeded, unresolved, summary.in_flight),
        (2, 1, 1)
    );
    let error = ledger.backup(copy.path().unwrap()).unwrap_err();
    assert!(error.to_string().contains("already a file"), "{error}");
    fs::write(ledger.path().unwrap(), "email\nada@example.com\n").unwrap();
    let other = folder.path().join("other");
    assert_eq!(kind(ledger.backup(&other)), LedgerErrorKind::NotALedger);
    assert!(!other.exists());
}

#[tokio::test]
async fn no_flipped_bit_and_no_truncation_lets_a_row_be_sent_again() {
    const ROWS: usize = 300;
    let (folder, ledger, _) = make_ledger(ROWS, create_every_other).await;
    // Looks up the rows as a job would.
    let found = |ledger: &Ledger| {
        ledger.summary()?;
        ledger.look_up(None, (0..ROWS).map(key))
    };
    let bytes = fs::read(ledger.path().unwrap()).unwrap();
    let expected = found(&ledger).unwrap();
    let damaged = Ledger::sqlite(folder.path().join("damaged"));
    let mut noticed = 0;
    // A prime step reaches every part of a page.
    for at in (0..bytes.len() * 8).step_by(1009) {
        let mut bytes = bytes.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        fs::write(damaged.path().unwrap(), bytes).unwrap();
        match found(&damaged) {
            Ok(found) => assert_eq!(found, expected, "bit {at}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 100, "{noticed}");
    for length in (1..bytes.len()).step_by(1500) {
        fs::write(damaged.path().unwrap(), &bytes[..length]).unwrap();
        found(&damaged).unwrap_err();
    }
}

#[tokio::test]
async fn overwriting_the_file_during_a_job_stops_the_job() {
    for (content, expected) in [
        ("another ledger", LedgerErrorKind::Moved),
        ("another ledger of as many changes", LedgerErrorKind::Moved),
        ("an older copy", LedgerErrorKind::Moved),
        ("nothing", LedgerErrorKind::Broken),
    ] {
        let (_folder, ledger, mut peer) = make_ledger(3, create_every_other).await;
        let path = ledger.path().unwrap();
        let mut other = match content {
            "an older copy" => fs::read(path).unwrap(),
            "nothing" => Vec::new(),
            _ => fs::read(make_ledger(3, create_every_other).await.1.path().unwrap()).unwrap(),
        };
        let client = peer.client();
        let job = client.agents().create_many((3..9).map(row));
        let mut creations = job.ledger(&ledger, None).concurrency(1).stream();
        let request = peer.next_during(creations.next()).await;
        if content == "another ledger of as many changes" {
            // SQLite compares these counters in the header to notice that a file has changed.
            let ours = fs::read(path).unwrap();
            other[24..40].copy_from_slice(&ours[24..40]);
            other[92..96].copy_from_slice(&ours[92..96]);
        }
        fs::write(path, other).unwrap();
        request.answer(201, VALID_BODY);
        let sent = creations.next().await.unwrap();
        assert_eq!(sent.outcome(), Succeeded);
        assert_eq!(sent.ledger_error.unwrap().kind(), expected, "{content}");
        while let Some(creation) = creations.next().await {
            let error = creation.result.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome()),
                (ErrorKind::Ledger, NotSent)
            );
            assert_eq!(error.ledger_error().unwrap().kind(), expected, "{content}");
        }
    }
}
