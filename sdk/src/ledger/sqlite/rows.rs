//! Rows: how they are read, written and checked.

use std::{
    collections::{BTreeMap, HashSet},
    ops::RangeInclusive,
    path::Path,
};

use rusqlite::{
    Connection, OptionalExtension as _, ToSql, ffi, params,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use sha2::{Digest as _, Sha256};

use super::super::{
    error::Cause,
    given_up::is_given_up,
    key_hash::KeyHash,
    owner,
    state::{Job, Record, Row, State},
    store::Table,
};

pub(super) const TABLES: &str = "
CREATE TABLE creates (
    key BLOB PRIMARY KEY,
    state TEXT NOT NULL,
    agent_id TEXT,
    status INTEGER,
    request_id TEXT,
    job INTEGER,
    claimed_at INTEGER NOT NULL,
    noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX creates_of_agent ON creates (agent_id) WHERE agent_id IS NOT NULL;
CREATE TABLE history (
    number INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    state TEXT NOT NULL,
    agent_id TEXT,
    status INTEGER,
    request_id TEXT,
    job INTEGER,
    claimed_at INTEGER NOT NULL,
    noted_at INTEGER NOT NULL
) STRICT;
CREATE INDEX history_of_key ON history (key, number);
CREATE TABLE sums (part INTEGER PRIMARY KEY, sum INTEGER NOT NULL) STRICT;
";

/// The columns of a [`Record`], in both tables.
const RECORD: &str = "state, agent_id, status, request_id, job, claimed_at, noted_at";

/// All parts.
pub(super) const ALL: RangeInclusive<u16> = 0..=u16::MAX >> 4;

/// The part in which a row is checked, so that a job reads only what is near its own keys: the rows whose keys begin with the
/// same 12 bits.
fn part_of(key: KeyHash) -> u16 {
    let [first, second, ..] = key.0;
    u16::from_be_bytes([first, second]) >> 4
}

/// What is to be added to the sum of each part.
pub(super) type Sums = BTreeMap<u16, i64>;

/// The rows of an open ledger, which is this file.
pub(super) struct Rows<'a> {
    pub(super) connection: &'a Connection,
    pub(super) file: &'a Path,
}

impl Rows<'_> {
    pub(super) fn get(&self, key: KeyHash) -> Result<Option<Record>, Cause> {
        let sql = format!("SELECT {RECORD} FROM creates WHERE key = ?");
        let mut found = self.connection.prepare_cached(&sql)?;
        let found = found.query_row([key], |row| self.record(row));
        Ok(found.optional()?)
    }

    /// What there is of a row, and was before.
    pub(super) fn row(&self, key: KeyHash) -> Result<Row, Cause> {
        let Some(current) = self.get(key)? else {
            return Ok(Row::default());
        };
        let sql = format!("SELECT {RECORD}, number FROM history WHERE key = ? ORDER BY number");
        let mut history = self.connection.prepare_cached(&sql)?;
        let history =
            history.query_map([key], |row| Ok((row.get("number")?, self.record(row)?)))?;
        Ok(Row::new(Some(current), history.collect::<Result<_, _>>()?))
    }

    /// Makes sure that nothing else has changed what is recorded of these keys, or lost it.
    pub(super) fn verify(
        &self,
        keys: impl IntoIterator<Item = KeyHash>,
        verified: &mut HashSet<u16>,
    ) -> Result<(), Cause> {
        for part in keys.into_iter().map(part_of) {
            if !verified.contains(&part) {
                self.for_each(part..=part, &mut |_, _, _| {})?;
                verified.insert(part);
            }
        }
        Ok(())
    }

    /// Calls a function with each row of some parts, with those of the history in their order, and checks the sums.
    pub(super) fn for_each(
        &self,
        parts: RangeInclusive<u16>,
        take: &mut dyn FnMut(Table, KeyHash, Record),
    ) -> Result<(), Cause> {
        let first = u128::from(*parts.start()) << 116;
        let last = u128::from(*parts.end()) << 116 | u128::MAX >> 12;
        let mut sums = Sums::new();
        for table in Table::ALL {
            let (name, order) = match table {
                Table::Creates => (table.name(), "key"),
                Table::History => (table.name(), "number"),
            };
            let mut rows = self.connection.prepare_cached(&format!(
                "SELECT {RECORD}, key FROM {name} WHERE key BETWEEN ? AND ? ORDER BY {order}"
            ))?;
            let mut rows = rows.query([first, last].map(|key| KeyHash(key.to_be_bytes())))?;
            while let Some(row) = rows.next()? {
                if is_given_up() {
                    let given_up = ffi::Error::new(ffi::SQLITE_BUSY);
                    return Err(rusqlite::Error::SqliteFailure(given_up, None).into());
                }
                let (key, record) = (KeyHash(row.get("key")?), self.record(row)?);
                *sums.entry(part_of(key)).or_default() += digest(table, key, &record);
                take(table, key, record);
            }
        }
        sums.retain(|_, sum| *sum != 0);
        let noted = "SELECT part, sum FROM sums WHERE sum != 0 AND part BETWEEN ? AND ?";
        let mut noted = self.connection.prepare_cached(noted)?;
        let noted = noted.query_map([parts.start(), parts.end()], |row| row.try_into())?;
        if noted.collect::<Result<Sums, _>>()? != sums {
            return Err(Cause::Broken("its rows were changed".to_owned()));
        }
        Ok(())
    }

    /// Writes what has changed of a row.
    pub(super) fn save(
        &self,
        sums: &mut Sums,
        key: KeyHash,
        stored: Option<Record>,
        row: Row,
    ) -> Result<(), Cause> {
        for (number, record) in &row.forgotten {
            let forget = "DELETE FROM history WHERE number = ?";
            self.connection.prepare_cached(forget)?.execute([number])?;
            *sums.entry(part_of(key)).or_default() -= digest(Table::History, key, record);
        }
        for (_, record) in row.history.iter().filter(|(number, _)| number.is_none()) {
            self.put(sums, Table::History, key, record)?;
        }
        if row.current == stored {
            return Ok(());
        }
        if let Some(stored) = &stored {
            *sums.entry(part_of(key)).or_default() -= digest(Table::Creates, key, stored);
        }
        if let Some(current) = &row.current {
            return self.put(sums, Table::Creates, key, current);
        }
        let forget = "DELETE FROM creates WHERE key = ?";
        self.connection.prepare_cached(forget)?.execute([key])?;
        Ok(())
    }

    pub(super) fn put(
        &self,
        sums: &mut Sums,
        table: Table,
        key: KeyHash,
        new: &Record,
    ) -> Result<(), Cause> {
        let name = table.name();
        let sql = format!(
            "INSERT OR REPLACE INTO {name} (key, {RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        );
        self.connection.prepare_cached(&sql)?.execute(params![
            key,
            new.state.as_str(),
            new.agent_id,
            new.status,
            new.request_id,
            new.job.map(|job| job.number),
            new.claimed_at,
            new.noted_at
        ])?;
        *sums.entry(part_of(key)).or_default() += digest(table, key, new);
        Ok(())
    }

    pub(super) fn add(&self, sums: &Sums) -> Result<(), Cause> {
        let mut add = self.connection.prepare_cached(
            "INSERT INTO sums VALUES (?1, ?2) ON CONFLICT DO UPDATE SET sum = sum + ?2",
        )?;
        for (part, more) in sums {
            add.execute(params![part, more])?;
        }
        Ok(())
    }

    /// Reads the columns of [`RECORD`].
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
            job: row.get::<_, Option<i64>>(4)?.map(job),
            claimed_at: row.get(5)?,
            noted_at: row.get(6)?,
        })
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

/// A number of 32 bits that changes with everything that is recorded of a row.
fn digest(table: Table, key: KeyHash, record: &Record) -> i64 {
    let mut hash = Sha256::new();
    hash.update(table.name());
    hash.update(key.0);
    let state = Some(record.state.as_str());
    for text in [
        state,
        record.agent_id.as_deref(),
        record.request_id.as_deref(),
    ] {
        hash.update([u8::from(text.is_some())]);
        let text = text.unwrap_or_default();
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.update(record.status.unwrap_or_default().to_be_bytes());
    for number in [
        record.job.map_or(0, |job| job.number),
        record.claimed_at,
        record.noted_at,
    ] {
        hash.update(number.to_be_bytes());
    }
    let [a, b, c, d, ..]: [u8; 32] = hash.finalize().into();
    u32::from_be_bytes([a, b, c, d]).into()
}
