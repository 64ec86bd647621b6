use std::{fs, path::Path, sync::Barrier, thread};

use dealkit::{
    ErrorKind,
    Outcome::{NotSent, Succeeded, Unknown},
};

use super::*;

/// Moves all files of ledgers from one folder to another.
fn move_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::rename(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Loses a ledger during a job, and checks that this process does not create it again, and uses it once it is restored.
async fn check_lost_ledger(ledger: &Ledger, lose: impl FnOnce(), restore: impl FnOnce()) {
    let mut peer = Peer::manual();
    let (client, other) = (peer.client(), peer.client());
    let job = client.agents().create_many(rows(4)).ledger(ledger, None);
    let mut creations = job.concurrency(1).stream();
    let request = peer.next_during(creations.next()).await;
    lose();
    request.answer(201, VALID_BODY);
    let sent = creations.next().await.unwrap();
    assert_eq!(sent.outcome(), Succeeded);
    assert_eq!(sent.ledger_error.unwrap().kind(), LedgerErrorKind::Moved);
    while creations.next().await.is_some() {}
    drop(creations);
    let (again, sent) = run(&mut peer, ledger, false, rows(4), |_| Reply::Create).await;
    assert!(sent.is_empty(), "{sent:?}");
    for creation in again {
        let error = creation.result.unwrap_err();
        let kind = error.ledger_error().unwrap().kind();
        assert_eq!((error.outcome(), kind), (NotSent, LedgerErrorKind::Moved));
        assert!(error.to_string().contains("Put it back"), "{error}");
    }
    let once = || other.agents().create(rows::request(9)).once(ledger, "nine");
    for _ in 0..2 {
        let error = once().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ledger);
        assert_eq!(error.ledger_error().unwrap().kind(), LedgerErrorKind::Moved);
    }
    let looked_up = ledger.look_up(None, ["nine"]);
    assert_eq!(kind(looked_up), LedgerErrorKind::Moved);
    restore();
    let mut call = once().into_future();
    peer.next_during(&mut call).await.answer(201, VALID_BODY);
    assert!(call.await.unwrap().now().is_some());
    let (again, sent) = run(&mut peer, ledger, false, rows(4), |_| Reply::Create).await;
    assert_eq!(sent, [1, 2, 3]);
    assert_eq!(again[0].outcome(), Unknown);
}

#[tokio::test]
async fn a_process_does_not_create_a_file_again_that_it_has_lost() {
    let (folder, ledger) = new_ledger();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    check_lost_ledger(
        &ledger,
        || move_files(folder.path(), &elsewhere),
        || move_files(&elsewhere, folder.path()),
    )
    .await;
}

#[tokio::test]
async fn a_process_does_not_create_tables_again_that_it_has_lost() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.new_url();
    let (_, schema) = url.split_once("schema=").unwrap();
    let rename = |from: &str, to: &str| {
        cluster.run_sql(&url, &format!("ALTER SCHEMA {from} RENAME TO {to}"));
    };
    let elsewhere = format!("{schema}_elsewhere");
    check_lost_ledger(
        &url.parse().unwrap(),
        || rename(schema, &elsewhere),
        || rename(&elsewhere, schema),
    )
    .await;
}

#[tokio::test]
async fn a_client_does_not_create_a_ledger_again_that_it_has_open() {
    let (folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    let once = |key| client.agents().create(rows::request(0)).once(&ledger, key);
    let mut call = once("one").into_future();
    peer.next_during(&mut call).await.answer(201, VALID_BODY);
    call.await.unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let error = tokio::select! {
        created = once("two") => created.unwrap_err(),
        _ = peer.next() => panic!("it was sent"),
    };
    assert_eq!(error.ledger_error().unwrap().kind(), LedgerErrorKind::Moved);
    assert!(fs::read_dir(&folder).unwrap().next().is_none());
}

#[tokio::test]
async fn the_remaining_files_of_a_lost_ledger_prevent_a_new_one() {
    let (folder, ledger, mut peer) = make_ledger(2, |_| Reply::Create).await;
    let path = |name: &str| folder.path().join(name);
    let moved = path("moved");
    fs::rename(ledger.path().unwrap(), &moved).unwrap();
    let lock_file = "agents.ledger-job-00000000000000aa";
    fs::write(path(lock_file), "").unwrap();
    for part in ["agents.ledger-journal", lock_file] {
        let (creations, sent) = run(&mut peer, &ledger, false, rows(3), |_| Reply::Create).await;
        assert!(sent.is_empty(), "{sent:?}");
        let error = creations[0].result.as_ref().unwrap_err();
        let in_job = error.ledger_error().unwrap().clone();
        let looked_up = ledger.look_up(None, [key(0)]).unwrap_err();
        for error in [in_job, looked_up, ledger.summary().unwrap_err()] {
            assert_eq!(error.kind(), LedgerErrorKind::Moved);
            let message = error.to_string();
            assert!(
                message.contains(&format!("the file is missing, but {part}")),
                "{message}"
            );
        }
        assert!(!ledger.path().unwrap().exists());
        fs::rename(path(part), path(&format!("moved-{part}"))).unwrap();
    }
    // Neither the ledger of another job nor an unfinished ledger shows that the ledger existed.
    fs::write(path("other.ledger-job-00000000000000aa"), "").unwrap();
    fs::write(path("agents.ledger-job-00000000000000ab-new"), "").unwrap();
    assert_eq!(ledger.look_up(None, [key(0)]).unwrap(), [None]);
    fs::rename(
        path("moved-agents.ledger-journal"),
        path("agents.ledger-journal"),
    )
    .unwrap();
    fs::rename(&moved, ledger.path().unwrap()).unwrap();
    let (_, sent) = run(&mut peer, &ledger, false, rows(3), |_| Reply::Create).await;
    assert_eq!(sent, [2]);
}

#[test]
fn jobs_that_create_the_same_ledger_share_it() {
    const JOBS: usize = 6;
    let client = client("https://deals.example.com");
    for _ in 0..20 {
        let (folder, ledger) = new_ledger();
        // A job was killed while it created the ledger.
        let unfinished = folder.path().join("agents.ledger-job-00000000000000ab-new");
        fs::write(unfinished, "").unwrap();
        let start = Barrier::new(JOBS);
        thread::scope(|scope| {
            for _ in 0..JOBS {
                scope.spawn(|| {
                    start.wait();
                    // The name of the keys is written to the ledger, so that it has a journal.
                    open(&client, &ledger, Some("email")).unwrap();
                });
            }
        });
    }
}
