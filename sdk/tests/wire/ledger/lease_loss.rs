use std::{fs, path::Path};

use dealkit::{ErrorKind, Outcome::NotSent};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::peer::{
    BOTH, Protocol, Step, answer, builder,
    tls::{Authority, Tls, TlsFront},
    until,
};

/// Checks that a row is not sent over a connection that becomes ready only after the job has lost its lease. `lose` ends the
/// lease.
async fn check_lease_loss(
    ledger: &Ledger,
    protocol: Protocol,
    lose: impl FnOnce(),
    expected: LedgerErrorKind,
) {
    let authority = Authority::new();
    let leaf = authority.issue();
    let script = vec![Step::ReadRequest, Step::Process, answer(201, VALID_BODY)];
    let peer = Peer::start(protocol, vec![script]);
    let front = TlsFront::start(peer, &Tls::new(&leaf));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let client = builder(&url).root_certificates(authority.pem());
    let client = client.build().unwrap();
    let job = client.agents().create_many(std::iter::empty::<KeyedRow>());
    let (_, mut creations) = job.ledger(ledger, "email").unordered().into_parts();
    creations.push(row(0));
    let (mut connection, _) = tokio::select! {
        _ = creations.next() => panic!("it was not sent yet"),
        accepted = listener.accept() => accepted.unwrap(),
    };
    lose();
    // When the job claims another row, it learns that its lease is lost.
    creations.push(row(1));
    let other = creations.next().await.unwrap();
    let near = front.address();
    tokio::spawn(async move {
        let mut service = TcpStream::connect(near).await.unwrap();
        copy_bidirectional(&mut connection, &mut service).await
    });
    let withheld = creations.next().await.unwrap();
    // The end of the handshake may reach the service later than the client.
    until(|| !front.handshakes().is_empty()).await;
    for (creation, index) in [(other, 1), (withheld, 0)] {
        assert_eq!(creation.index, index);
        let error = creation.result.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Ledger, NotSent),
            "{error}"
        );
        assert_eq!(error.ledger_error().unwrap().kind(), expected, "{error}");
    }
    drop(creations);
    drop(client);
    assert_eq!(front.handshakes().len(), 1);
    assert_eq!(front.peer.finish().await.agents, 0);
}

/// Returns the lock files of a ledger's jobs.
fn lock_files(ledger: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(ledger.parent().unwrap()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().contains("-job-"))
        .collect()
}

#[tokio::test]
async fn nothing_is_sent_over_a_connection_that_is_ready_only_after_the_lease_has_ended() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    for protocol in BOTH {
        let url = cluster.new_url();
        let expire = || {
            cluster.run_sql(&url, "UPDATE jobs SET lease_until = clock_timestamp()");
        };
        let ledger = url.parse().unwrap();
        check_lease_loss(&ledger, protocol, expire, LedgerErrorKind::Unreachable).await;
        let summary = ledger.summary().unwrap();
        assert_eq!((summary.in_flight, summary.succeeded), (0, 0));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_sent_once_the_lock_file_is_deleted() {
    for protocol in BOTH {
        let (_folder, ledger) = new_ledger();
        let path = ledger.path().unwrap();
        let delete = || {
            let [lock] = &lock_files(path)[..] else {
                panic!("there is one job");
            };
            fs::remove_file(lock).unwrap();
        };
        check_lease_loss(&ledger, protocol, delete, LedgerErrorKind::Moved).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_ledger_with_a_second_name_is_rejected() {
    let (folder, ledger, _) = make_ledger(1, |_| Reply::Create).await;
    let link = Ledger::sqlite(folder.path().join("link"));
    fs::hard_link(ledger.path().unwrap(), link.path().unwrap()).unwrap();
    let client = client("https://deals.example.com");
    for ledger in [&ledger, &link] {
        for rejected in [ledger.summary().map(drop), open(&client, ledger, None)] {
            let error = rejected.unwrap_err();
            assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
            assert!(error.to_string().contains("hard link"), "{error}");
        }
    }
    // A symbolic link is no second name.
    fs::remove_file(link.path().unwrap()).unwrap();
    std::os::unix::fs::symlink(ledger.path().unwrap(), link.path().unwrap()).unwrap();
    assert_eq!(link.summary().unwrap().succeeded, 1);
}
