//! Reads and writes rows, and verifies their checksums.

use std::{
    collections::{BTreeSet, HashSet},
    ops::RangeInclusive,
    path::Path,
};

use blake2::{Blake2b, Digest as _, digest::consts::U4};
use rusqlite::{
    Connection, ToSql, ffi, params,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};

use super::super::{
    cancellation::CancellationFlag,
    error::Cause,
    job_lock,
    key_hash::{KeyHash, ValueHash},
    row::{AgentOwners, Job, RequestInfo, Row, RowEntry, State},
    store::EntryChange,
};

pub(super) const ROWS_TABLE: &str = "
CREATE TABLE creates (
    key BLOB NOT NULL,
    entry INTEGER NOT NULL,
    state TEXT NOT NULL,
    agent_id TEXT,
    status INTEGER,
    request_id TEXT,
    title TEXT,
    code TEXT,
    request BLOB,
    email BLOB,
    label TEXT,
    job INTEGER,
    claimed_at INTEGER NOT NULL,
    noted_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX creates_of_key ON creates (key, entry);
CREATE INDEX creates_of_agent ON creates (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX creates_of_email ON creates (email) WHERE email IS NOT NULL;
";

const ENTRY_COLUMNS: &str = "state, agent_id, status, request_id, title, code, request, email, label, job, claimed_at, noted_at";

/// Returns the partition of a row: the first byte of its key. Each partition has a checksum, so that a job verifies only the
/// partitions of its own keys.
fn partition_of(key: KeyHash) -> u8 {
    let [first, ..] = key.0;
    first
}

pub(super) const ALL_PARTITIONS: RangeInclusive<u8> = 0..=u8::MAX;

/// The checksum of each partition: the sum of the hashes of its entries.
#[derive(Clone)]
pub(super) struct Checksums(pub(super) [u32; 256]);

impl Checksums {
    pub(super) fn zero() -> Self {
        Self([0; 256])
    }

    fn add(&mut self, key: KeyHash, hash: u32) {
        if let Some(sum) = self.0.get_mut(usize::from(partition_of(key))) {
            *sum = sum.wrapping_add(hash);
        }
    }
}

/// The rows of an open ledger, within a transaction.
pub(super) struct StoredRows<'a> {
    pub(super) connection: &'a Connection,
    /// The path of the ledger, next to which the lock files are.
    pub(super) path: &'a Path,
    /// The flag that cancels the reading of many rows.
    pub(super) cancellation: Option<&'a CancellationFlag>,
    pub(super) checksums: Checksums,
}

impl StoredRows<'_> {
    /// Reads all entries of a row.
    pub(super) fn read_row(&self, key: KeyHash) -> Result<Row, Cause> {
        let sql = format!("SELECT {ENTRY_COLUMNS} FROM creates WHERE key = ? ORDER BY entry");
        let mut entries = self.connection.prepare_cached(&sql)?;
        let entries = entries.query_map([key], |row| self.parse_entry(row))?;
        Ok(Row(entries.collect::<Result<_, _>>()?))
    }

    pub(super) fn is_empty(&self) -> Result<bool, rusqlite::Error> {
        let mut rows = self.connection.prepare_cached("SELECT 1 FROM creates")?;
        Ok(!rows.exists([])?)
    }

    /// Finds the rows that have these agents now.
    pub(super) fn read_owners(&self, ids: &BTreeSet<String>) -> Result<AgentOwners, Cause> {
        let sql = "SELECT key FROM creates AS it WHERE agent_id = ?
            AND entry = (SELECT max(entry) FROM creates WHERE key = it.key)";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut owners = AgentOwners::new();
        for id in ids {
            let rows = statement.query_map([id], |row| row.get(0).map(KeyHash))?;
            owners.insert(id.clone(), rows.collect::<Result<_, _>>()?);
        }
        Ok(owners)
    }

    /// Verifies the checksums of the partitions of these keys: they match unless another program has changed or deleted rows.
    /// Partitions that were verified before are skipped.
    pub(super) fn verify_partitions<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k KeyHash>,
        verified_partitions: &mut HashSet<u8>,
    ) -> Result<(), Cause> {
        for partition in keys.into_iter().map(|key| partition_of(*key)) {
            if !verified_partitions.contains(&partition) {
                self.for_each_row(partition..=partition, &mut |_| {})?;
                verified_partitions.insert(partition);
            }
        }
        Ok(())
    }

    /// Calls a function with the current entry of each row of some partitions, and verifies their checksums.
    pub(super) fn for_each_row(
        &self,
        partitions: RangeInclusive<u8>,
        visit: &mut dyn FnMut(RowEntry),
    ) -> Result<(), Cause> {
        let mut first_key = [0; 16];
        let mut last_key = [u8::MAX; 16];
        (first_key[0], last_key[0]) = partitions.into_inner();
        let mut computed_sums = Checksums::zero();
        let mut current: Option<(KeyHash, RowEntry)> = None;
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, key, entry FROM creates INDEXED BY creates_of_key
            WHERE key BETWEEN ? AND ? ORDER BY key, entry"
        );
        let mut rows = self.connection.prepare_cached(&sql)?;
        let mut rows = rows.query([first_key, last_key])?;
        while let Some(row) = rows.next()? {
            if self
                .cancellation
                .is_some_and(CancellationFlag::is_cancelled)
            {
                let cancellation = ffi::Error::new(ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(cancellation, None).into());
            }
            let (key, entry) = (KeyHash(row.get(12)?), self.parse_entry(row)?);
            computed_sums.add(key, hash_entry(key, row.get(13)?, &entry));
            match current.replace((key, entry)) {
                Some((previous, entry)) if previous != key => visit(entry),
                _ => {}
            }
        }
        current.into_iter().for_each(|(_, entry)| visit(entry));
        let partitions = usize::from(first_key[0])..=usize::from(last_key[0]);
        if computed_sums.0.get(partitions.clone()) != self.checksums.0.get(partitions) {
            return Err(Cause::Broken("its rows were changed".to_owned()));
        }
        Ok(())
    }

    /// Writes or deletes an entry, and updates the checksum of its partition.
    pub(super) fn write_entry(&mut self, change: &EntryChange<'_>) -> Result<(), Cause> {
        let EntryChange {
            key,
            number,
            old,
            new,
        } = *change;
        let hash_of = |entry: Option<&RowEntry>| entry.map(|entry| hash_entry(key, number, entry));
        let old_hash = hash_of(old).unwrap_or_default();
        self.checksums.add(key, old_hash.wrapping_neg());
        self.checksums.add(key, hash_of(new).unwrap_or_default());
        let Some(new) = new else {
            let sql = "DELETE FROM creates WHERE key = ? AND entry = ?";
            let mut delete = self.connection.prepare_cached(sql)?;
            delete.execute(params![key, number])?;
            return Ok(());
        };
        let sql = format!(
            "INSERT INTO creates (key, entry, {ENTRY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (key, entry) DO UPDATE SET state = excluded.state, agent_id = excluded.agent_id,
            status = excluded.status, request_id = excluded.request_id, title = excluded.title,
            code = excluded.code, request = excluded.request, email = excluded.email,
            label = excluded.label, job = excluded.job,
            claimed_at = excluded.claimed_at, noted_at = excluded.noted_at"
        );
        self.connection.prepare_cached(&sql)?.execute(params![
            key,
            number,
            new.state.as_str(),
            new.agent_id,
            new.status,
            new.request_id,
            new.title,
            new.code,
            new.request.body_hash,
            new.request.email_hash,
            new.request.label,
            new.job.map(|job| job.number),
            new.claimed_at,
            new.noted_at
        ])?;
        Ok(())
    }

    fn parse_entry(&self, row: &rusqlite::Row<'_>) -> Result<RowEntry, rusqlite::Error> {
        let job = |number| Job {
            number,
            is_alive: job_lock::is_alive(self.path, number),
        };
        Ok(RowEntry {
            state: row.get(0)?,
            agent_id: row.get(1)?,
            status: row.get(2)?,
            request_id: row.get(3)?,
            title: row.get(4)?,
            code: row.get(5)?,
            request: RequestInfo {
                body_hash: row.get(6)?,
                email_hash: row.get(7)?,
                label: row.get(8)?,
            },
            job: row.get::<_, Option<i64>>(9)?.map(job),
            claimed_at: row.get(10)?,
            noted_at: row.get(11)?,
        })
    }
}

impl FromSql for Checksums {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let (sums, rest) = value.as_blob()?.as_chunks();
        let sums: &[[u8; 4]; 256] = sums.try_into().map_err(FromSqlError::other)?;
        if !rest.is_empty() {
            return Err(FromSqlError::InvalidType);
        }
        Ok(Self(sums.map(u32::from_be_bytes)))
    }
}

impl ToSql for Checksums {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.map(u32::to_be_bytes).as_flattened().to_vec().into())
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        State::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for KeyHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for ValueHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 16]>::column_result(value).map(Self)
    }
}

impl ToSql for ValueHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// Hashes all columns of an entry.
fn hash_entry(key: KeyHash, number: i64, entry: &RowEntry) -> u32 {
    let mut hash = Blake2b::<U4>::new();
    hash.update(key.0);
    let request = &entry.request;
    for value in [
        Some(entry.state.as_str().as_bytes()),
        entry.agent_id.as_ref().map(String::as_bytes),
        entry.request_id.as_ref().map(String::as_bytes),
        entry.title.as_ref().map(String::as_bytes),
        entry.code.as_ref().map(String::as_bytes),
        request.body_hash.as_ref().map(|hash| &hash.0[..]),
        request.email_hash.as_ref().map(|hash| &hash.0[..]),
        request.label.as_ref().map(String::as_bytes),
    ] {
        hash.update([u8::from(value.is_some())]);
        let value = value.unwrap_or_default();
        hash.update((value.len() as u64).to_be_bytes());
        hash.update(value);
    }
    hash.update(entry.status.unwrap_or_default().to_be_bytes());
    for number in [
        number,
        entry.job.map_or(0, |job| job.number),
        entry.claimed_at,
        entry.noted_at,
    ] {
        hash.update(number.to_be_bytes());
    }
    u32::from_be_bytes(hash.finalize().into())
}
