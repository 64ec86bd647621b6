//! Rows: how they are read, written and checked.

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
    key_hash::{Digest, KeyHash},
    owner,
    state::{AgentOwners, Job, Record, RequestInfo, Row, State},
    store::Changed,
};

pub(super) const TABLES: &str = "
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

const RECORD: &str = "state, agent_id, status, request_id, title, code, request, email, label, job, claimed_at, noted_at";

/// The part in which a row is checked, so that a job reads only what is near its own keys: the rows whose keys begin with the
/// same byte.
fn part_of(key: KeyHash) -> u8 {
    let [first, ..] = key.0;
    first
}

/// All parts.
pub(super) const ALL: RangeInclusive<u8> = 0..=u8::MAX;

/// The sum of each part: of the digests of its entries.
#[derive(Clone)]
pub(super) struct Sums(pub(super) [u32; 256]);

impl Sums {
    pub(super) fn none() -> Self {
        Self([0; 256])
    }

    fn add(&mut self, key: KeyHash, digest: u32) {
        if let Some(sum) = self.0.get_mut(usize::from(part_of(key))) {
            *sum = sum.wrapping_add(digest);
        }
    }
}

/// The rows of an open ledger, which is this file, in a transaction.
pub(super) struct Stored<'a> {
    pub(super) connection: &'a Connection,
    pub(super) file: &'a Path,
    /// The flag with which reading many rows ends.
    pub(super) cancellation: Option<&'a CancellationFlag>,
    pub(super) sums: Sums,
}

impl Stored<'_> {
    /// What there is of a row.
    pub(super) fn row(&self, key: KeyHash) -> Result<Row, Cause> {
        let sql = format!("SELECT {RECORD} FROM creates WHERE key = ? ORDER BY entry");
        let mut entries = self.connection.prepare_cached(&sql)?;
        let entries = entries.query_map([key], |row| self.record(row))?;
        Ok(Row(entries.collect::<Result<_, _>>()?))
    }

    pub(super) fn is_empty(&self) -> Result<bool, rusqlite::Error> {
        let mut any = self.connection.prepare_cached("SELECT 1 FROM creates")?;
        Ok(!any.exists([])?)
    }

    /// Finds the rows that have these agents now.
    pub(super) fn owners(&self, ids: &BTreeSet<String>) -> Result<AgentOwners, Cause> {
        let sql = "SELECT key FROM creates AS it WHERE agent_id = ?
            AND entry = (SELECT max(entry) FROM creates WHERE key = it.key)";
        let mut of_agent = self.connection.prepare_cached(sql)?;
        let mut owners = AgentOwners::new();
        for id in ids {
            let rows = of_agent.query_map([id], |row| row.get(0).map(KeyHash))?;
            owners.insert(id.clone(), rows.collect::<Result<_, _>>()?);
        }
        Ok(owners)
    }

    /// Makes sure that nothing else has changed what is recorded of these keys, or lost it.
    pub(super) fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k KeyHash>,
        verified: &mut HashSet<u8>,
    ) -> Result<(), Cause> {
        for part in keys.into_iter().map(|key| part_of(*key)) {
            if !verified.contains(&part) {
                self.for_each(part..=part, &mut |_| {})?;
                verified.insert(part);
            }
        }
        Ok(())
    }

    /// Calls a function with each row of some parts as it is now, and checks the sums.
    pub(super) fn for_each(
        &self,
        parts: RangeInclusive<u8>,
        take: &mut dyn FnMut(Record),
    ) -> Result<(), Cause> {
        let mut first = [0; 16];
        let mut last = [u8::MAX; 16];
        (first[0], last[0]) = parts.into_inner();
        let mut sums = Sums::none();
        let mut current: Option<(KeyHash, Record)> = None;
        let sql = format!(
            "SELECT {RECORD}, key, entry FROM creates INDEXED BY creates_of_key
            WHERE key BETWEEN ? AND ? ORDER BY key, entry"
        );
        let mut rows = self.connection.prepare_cached(&sql)?;
        let mut rows = rows.query([first, last])?;
        while let Some(row) = rows.next()? {
            if self
                .cancellation
                .is_some_and(CancellationFlag::is_cancelled)
            {
                let cancellation = ffi::Error::new(ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(cancellation, None).into());
            }
            let (key, record) = (KeyHash(row.get(12)?), self.record(row)?);
            sums.add(key, digest(key, row.get(13)?, &record));
            match current.replace((key, record)) {
                Some((before, record)) if before != key => take(record),
                _ => {}
            }
        }
        current.into_iter().for_each(|(_, record)| take(record));
        let parts = usize::from(first[0])..=usize::from(last[0]);
        if sums.0.get(parts.clone()) != self.sums.0.get(parts) {
            return Err(Cause::Broken("its rows were changed".to_owned()));
        }
        Ok(())
    }

    /// Writes an entry that has changed.
    pub(super) fn write(&mut self, changed: &Changed<'_>) -> Result<(), Cause> {
        let Changed {
            key,
            entry,
            old,
            new,
        } = *changed;
        let digest_of = |record: Option<&Record>| record.map(|record| digest(key, entry, record));
        let before = digest_of(old).unwrap_or_default();
        self.sums.add(key, before.wrapping_neg());
        self.sums.add(key, digest_of(new).unwrap_or_default());
        let Some(new) = new else {
            let sql = "DELETE FROM creates WHERE key = ? AND entry = ?";
            let mut delete = self.connection.prepare_cached(sql)?;
            delete.execute(params![key, entry])?;
            return Ok(());
        };
        let sql = format!(
            "INSERT INTO creates (key, entry, {RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (key, entry) DO UPDATE SET state = excluded.state, agent_id = excluded.agent_id,
            status = excluded.status, request_id = excluded.request_id, title = excluded.title,
            code = excluded.code, request = excluded.request, email = excluded.email,
            label = excluded.label, job = excluded.job,
            claimed_at = excluded.claimed_at, noted_at = excluded.noted_at"
        );
        self.connection.prepare_cached(&sql)?.execute(params![
            key,
            entry,
            new.state.as_str(),
            new.agent_id,
            new.status,
            new.request_id,
            new.title,
            new.code,
            new.request.body,
            new.request.email,
            new.request.label,
            new.job.map(|job| job.number),
            new.claimed_at,
            new.noted_at
        ])?;
        Ok(())
    }

    fn record(&self, row: &rusqlite::Row<'_>) -> Result<Record, rusqlite::Error> {
        let job = |number| Job {
            number,
            is_alive: owner::is_alive(self.file, number),
        };
        Ok(Record {
            state: row.get(0)?,
            agent_id: row.get(1)?,
            status: row.get(2)?,
            request_id: row.get(3)?,
            title: row.get(4)?,
            code: row.get(5)?,
            request: RequestInfo {
                body: row.get(6)?,
                email: row.get(7)?,
                label: row.get(8)?,
            },
            job: row.get::<_, Option<i64>>(9)?.map(job),
            claimed_at: row.get(10)?,
            noted_at: row.get(11)?,
        })
    }
}

impl FromSql for Sums {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let (sums, rest) = value.as_blob()?.as_chunks();
        let sums: &[[u8; 4]; 256] = sums.try_into().map_err(FromSqlError::other)?;
        if !rest.is_empty() {
            return Err(FromSqlError::InvalidType);
        }
        Ok(Self(sums.map(u32::from_be_bytes)))
    }
}

impl ToSql for Sums {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.map(u32::to_be_bytes).as_flattened().to_vec().into())
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        State::of_word(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for KeyHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for Digest {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 16]>::column_result(value).map(Self)
    }
}

impl ToSql for Digest {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// Hashes an entry of a row with everything that is recorded in it.
fn digest(key: KeyHash, entry: i64, record: &Record) -> u32 {
    let mut hash = Blake2b::<U4>::new();
    hash.update(key.0);
    let request = &record.request;
    for value in [
        Some(record.state.as_str().as_bytes()),
        record.agent_id.as_ref().map(String::as_bytes),
        record.request_id.as_ref().map(String::as_bytes),
        record.title.as_ref().map(String::as_bytes),
        record.code.as_ref().map(String::as_bytes),
        request.body.as_ref().map(|hash| &hash.0[..]),
        request.email.as_ref().map(|hash| &hash.0[..]),
        request.label.as_ref().map(String::as_bytes),
    ] {
        hash.update([u8::from(value.is_some())]);
        let value = value.unwrap_or_default();
        hash.update((value.len() as u64).to_be_bytes());
        hash.update(value);
    }
    hash.update(record.status.unwrap_or_default().to_be_bytes());
    for number in [
        entry,
        record.job.map_or(0, |job| job.number),
        record.claimed_at,
        record.noted_at,
    ] {
        hash.update(number.to_be_bytes());
    }
    u32::from_be_bytes(hash.finalize().into())
}
