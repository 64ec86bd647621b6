//! Jobs with a ledger, one module per promise of a ledger. Tests that apply to both kinds of database run with both.
#![cfg(all(feature = "blocking", feature = "ledger-postgres"))]

use std::vec::IntoIter;

use dealkit::{
    Client, CreateMany, Creation, KeyedRow, Outcome, blocking,
    ledger::{Ledger, LedgerError, LedgerErrorKind},
};
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    peer::{Peer, VALID_BODY, client, runtime},
    rows::{self, email as key, new_ledger, number},
};

/// Runs each of these tests with a file and, where PostgreSQL is installed, with a new schema. The async tests come first, then
/// a semicolon, then the others.
macro_rules! test_both_databases {
    ($($async_test:ident)* ; $($sync_test:ident)*) => {
        mod in_a_file {
            use super::super::{in_a_file, run_async};

            $(#[test] fn $async_test() { in_a_file(|ledger| run_async(super::$async_test(ledger))) })*
            $(#[test] fn $sync_test() { in_a_file(super::$sync_test) })*
        }
        mod in_postgres {
            use super::super::{in_postgres, run_async};

            $(#[test] fn $async_test() { in_postgres(|ledger| run_async(super::$async_test(ledger))) })*
            $(#[test] fn $sync_test() { in_postgres(super::$sync_test) })*
        }
    };
}

/// Cancelled rows are recorded with the outcome that is known by then.
mod cancellation;
/// Rows that the service rejected are sent again if they were corrected.
mod corrected_rows;
/// Files that are no ledgers are left unchanged, and a ledger that another program has changed is rejected.
mod damaged_and_foreign_files;
/// A job sends nothing once other jobs may consider it dead.
mod lease_loss;
/// A lost ledger is not replaced by a new one.
mod lost_ledgers;
/// Manual operations: unresolved rows are looked up and resolved.
mod maintenance;
/// A repeated run sends new rows, and reports the recorded outcomes of the others.
mod repeated_runs;
/// A ledger rejects jobs for another service, or with other keys.
mod service_and_keys;

fn in_postgres(test: impl FnOnce(Ledger)) {
    if let Some(cluster) = Cluster::shared() {
        test(cluster.new_url().parse().unwrap());
    }
}

fn in_a_file(test: impl FnOnce(Ledger)) {
    let (_folder, ledger) = new_ledger();
    test(ledger);
}

fn run_async(test: impl Future<Output = ()>) {
    runtime().block_on(test);
}

/// The service's response to a row.
#[derive(Clone, Copy)]
enum Reply {
    Create,
    /// The service creates the agent, but the response has only its identifier.
    Unreadable,
    Status(u16),
    /// The service creates the agent, but the response is lost.
    Lose,
    /// The service creates the agent, but its response breaks off after the head.
    Cut,
}

fn row(number: usize) -> KeyedRow {
    (key(number), rows::request(number)).into()
}

/// Makes the row with this number, but with a request that fails validation.
fn invalid_row(number: usize) -> KeyedRow {
    (key(number), rows::broken(number)).into()
}

fn rows(count: usize) -> Vec<KeyedRow> {
    (0..count).map(row).collect()
}

/// Runs a whole job with these rows, and returns its results and the numbers of the rows that were sent.
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
    run_job(peer, job, reply).await
}

/// Runs this job, and returns its results and the numbers of the rows that were sent.
async fn run_job(
    peer: &mut Peer,
    job: CreateMany<IntoIter<KeyedRow>>,
    reply: impl Fn(usize) -> Reply,
) -> (Vec<Creation>, Vec<usize>) {
    let mut creations = job.concurrency(3).stream();
    let (mut results, mut sent) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            creation = creations.next() => match creation {
                Some(creation) => results.push(creation),
                None => break,
            },
            request = peer.next() => {
                let number = number(&request);
                sent.push(number);
                match reply(number) {
                    Reply::Create => request.answer(201, &VALID_BODY.replace("x_1", &format!("a_{number}"))),
                    Reply::Unreadable => request.answer(201, &format!(r#"{{"id": "a_{number}"}}"#)),
                    Reply::Status(status) => request.answer(status, ""),
                    Reply::Lose => request.answer_and_close(""),
                    Reply::Cut => request.answer_and_close("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"),
                }
            }
        }
    }
    sent.sort_unstable();
    (results, sent)
}

/// Opens the ledger as a job whose keys have this name does, for a row that is not sent.
fn open(client: &Client, ledger: &Ledger, keys: Option<&str>) -> Result<(), LedgerError> {
    let client = blocking::Client::new(client.clone()).unwrap();
    let job = client.agents().create_many([invalid_row(0)]);
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

/// Returns the outcome of each row, and whether it comes from the ledger.
fn outcomes(creations: &[Creation]) -> Vec<(Outcome, bool)> {
    let creations = creations.iter();
    creations
        .map(|creation| (creation.outcome(), creation.is_from_ledger()))
        .collect()
}

fn error_message(creation: &Creation) -> String {
    creation.result.as_ref().unwrap_err().to_string()
}

fn kind<T>(result: Result<T, LedgerError>) -> LedgerErrorKind {
    result.map(drop).unwrap_err().kind()
}

/// Makes a ledger with this many rows, to which the service has replied in this way.
async fn make_ledger(rows: usize, reply: impl Fn(usize) -> Reply) -> (TempDir, Ledger, Peer) {
    let (folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, self::rows(rows), reply).await;
    (folder, ledger, peer)
}
