//! Tests of the rules and stores of ledgers, with SQLite and, where it is installed, PostgreSQL. They use private items of the
//! crate.
//!
//! * `row_exhaustive`: the rules of one row, in every order of events.
//! * `row_cases`: selected cases of these rules.
//! * `equality`: the same reads from every store after the same writes.
//! * `claims`: concurrent claims.
//! * `leases`: jobs whose lease expires.
//! * `outages`: a database that is killed or drops connections.
//! * `header`: ledgers of another service or of other keys.
//! * `resolving`: manual resolution of unknown outcomes.
//! * `access`: privileges, TLS, secrets, changed and unsuitable databases.
//! * `hashes`, `format`: bytes that later versions must read.

use tempfile::TempDir;

use super::{
    Ledger, LedgerError, LedgerErrorKind, LedgerRow,
    cancellation::CancellationFlag,
    error::Cause,
    key_hash::KeyHash,
    row::{RequestInfo, RowEntry, State, WhenUnresolved},
    store::{Store, Write},
};

mod access;
mod claims;
#[path = "../cluster/mod.rs"]
mod cluster;
mod equality;
mod format;
mod hashes;
mod header;
mod leases;
mod outages;
mod resolving;
mod row_cases;
mod row_exhaustive;

use cluster::Cluster;

const SERVICE: &str = "https://deals.example.com";

/// The time of every write, in milliseconds since 1970.
const NOW: i64 = 1_800_000_000_000;

fn open_job(ledger: &Ledger) -> Box<dyn Store> {
    open_with_keys(ledger, Some("email")).unwrap()
}

fn claim(
    store: &mut dyn Store,
    key: KeyHash,
    when_unresolved: WhenUnresolved,
) -> Option<LedgerRow> {
    try_claim(store, key, when_unresolved).unwrap()
}

fn try_claim(
    store: &mut dyn Store,
    key: KeyHash,
    when_unresolved: WhenUnresolved,
) -> Result<Option<LedgerRow>, Cause> {
    let claimed = store.write(&[&claim_write(key, when_unresolved)], &[], NOW);
    claimed.map(|mut claimed| claimed.remove(0).unwrap())
}

fn claim_write(key: KeyHash, when_unresolved: WhenUnresolved) -> Write {
    Write::Claim {
        key,
        when_unresolved,
        resends_corrected: false,
        request: RequestInfo::default(),
    }
}

fn record_state(store: &mut dyn Store, key: KeyHash, state: State) -> Result<(), Cause> {
    let outcome = Some(RowEntry::new(state));
    store
        .write(&[&Write::RecordOutcome { key, outcome }], &[], NOW)
        .map(drop)
}

fn error_kind<T>(result: Result<T, impl Into<LedgerError>>) -> LedgerErrorKind {
    result.map(drop).map_err(Into::into).unwrap_err().kind()
}

impl From<Cause> for LedgerError {
    fn from(cause: Cause) -> Self {
        Self::for_file("".as_ref(), cause)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a test with a new file and, where PostgreSQL is installed, with a new schema.
fn for_each_database(test: impl Fn(&Ledger)) {
    let folder = TempDir::new().unwrap();
    test(&Ledger::sqlite(folder.path().join("agents.ledger")));
    if let Some(cluster) = Cluster::shared() {
        test(&cluster.new_url().parse().unwrap());
    }
}

fn open_with_keys(ledger: &Ledger, keys: Option<&str>) -> Result<Box<dyn Store>, Cause> {
    ledger.open_to_send(SERVICE, keys, &CancellationFlag::default())
}
