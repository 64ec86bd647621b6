//! Jobs with a ledger, by what a ledger promises. Rules that hold for both databases run on both.
#![cfg(all(feature = "blocking", feature = "ledger-postgres"))]

use dealkit::{
    Client, Creation, KeyedRow, Outcome, blocking,
    ledger::{Ledger, LedgerError, LedgerErrorKind},
};
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    peer::{Peer, VALID_BODY, client, runtime},
    rows::{self, email as key, new_ledger, number},
};

/// Runs each of these on a file and, where PostgreSQL is installed, on a ledger of its own there: first those to be awaited.
macro_rules! in_both {
    ($($awaited:ident)* ; $($plain:ident)*) => {
        mod in_a_file {
            use super::super::{in_a_file, run_async};

            $(#[test] fn $awaited() { in_a_file(|ledger| run_async(super::$awaited(ledger))) })*
            $(#[test] fn $plain() { in_a_file(super::$plain) })*
        }
        mod in_postgres {
            use super::super::{in_postgres, run_async};

            $(#[test] fn $awaited() { in_postgres(|ledger| run_async(super::$awaited(ledger))) })*
            $(#[test] fn $plain() { in_postgres(super::$plain) })*
        }
    };
}

/// Another run sends what is new, and says what became of the rest.
mod another_run;
/// Nobody is recognised by the ledger of another service, or by other keys.
mod bound;
/// What is given up is recorded as far as it has come.
mod cancellation;
/// A file that anything else has changed is noticed.
mod file;
/// A job sends nothing once others may take it for dead.
mod lease;
/// People find out what became of a row.
mod maintenance;

fn in_postgres(test: impl FnOnce(Ledger)) {
    if let Some(cluster) = Cluster::shared() {
        test(cluster.url().parse().unwrap());
    }
}

fn in_a_file(test: impl FnOnce(Ledger)) {
    let (_folder, ledger) = new_ledger();
    test(ledger);
}

fn run_async(test: impl Future<Output = ()>) {
    runtime().block_on(test);
}

/// What the service does with a row.
#[derive(Clone, Copy)]
enum Reply {
    Create,
    /// It creates the agent, but the response has only its identifier.
    Unreadable,
    Status(u16),
    /// It creates the agent, but the response is lost.
    Lose,
    /// It says that it created the agent, and breaks off.
    Cut,
}

fn row(number: usize) -> KeyedRow {
    (key(number), rows::request(number)).into()
}

/// The same row, which breaks the rules.
fn broken_row(number: usize) -> KeyedRow {
    (key(number), rows::broken(number)).into()
}

fn rows(count: usize) -> Vec<KeyedRow> {
    (0..count).map(row).collect()
}

/// Runs a whole job over these rows, and returns what became of them and which were sent.
async fn run(
    peer: &mut Peer,
    ledger: &Ledger,
    resends_unknown: bool,
    rows: Vec<KeyedRow>,
    reply: impl Fn(usize) -> Reply,
) -> (Vec<Creation>, Vec<usize>) {
    let client = peer.client();
    let mut job = client.agents().create_many(rows).ledger(ledger, None);
    if resends_unknown {
        job = job.resend_unknown();
    }
    let mut creations = job.concurrency(3).stream();
    let (mut came, mut sent) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            creation = creations.next() => match creation {
                Some(creation) => came.push(creation),
                None => break,
            },
            heard = peer.next() => {
                let number = number(&heard);
                sent.push(number);
                match reply(number) {
                    Reply::Create => heard.answer(201, &VALID_BODY.replace("x_1", &format!("a_{number}"))),
                    Reply::Unreadable => heard.answer(201, &format!(r#"{{"id": "a_{number}"}}"#)),
                    Reply::Status(status) => heard.answer(status, ""),
                    Reply::Lose => heard.answer_and_close(""),
                    Reply::Cut => heard.answer_and_close("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"),
                }
            }
        }
    }
    sent.sort_unstable();
    (came, sent)
}

/// Opens the ledger as a job with these keys does, for a row that is not sent.
fn open(client: &Client, ledger: &Ledger, keys: Option<&str>) -> Result<(), LedgerError> {
    let client = blocking::Client::new(client.clone()).unwrap();
    let job = client.agents().create_many([broken_row(0)]);
    let [creation] = job
        .ledger(ledger, keys)
        .into_iter()
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    match creation.result.unwrap_err().ledger_error() {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

/// Of each row the outcome, and whether the ledger has told it.
fn outcomes(creations: &[Creation]) -> Vec<(Outcome, bool)> {
    let creations = creations.iter();
    creations
        .map(|creation| (creation.outcome(), creation.is_from_ledger()))
        .collect()
}

fn text(creation: &Creation) -> String {
    creation.result.as_ref().unwrap_err().to_string()
}

fn kind<T>(result: Result<T, LedgerError>) -> LedgerErrorKind {
    result.map(drop).unwrap_err().kind()
}

/// A ledger with this many rows, to each of which the service has replied in this way.
async fn filled(rows: usize, reply: impl Fn(usize) -> Reply) -> (TempDir, Ledger, Peer) {
    let (folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, self::rows(rows), reply).await;
    (folder, ledger, peer)
}
