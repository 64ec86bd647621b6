//! What a ledger needs of a database, and what follows from that for every database.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    error::Cause,
    key_hash::{self, KeyHash, compared, ignore_case},
    state::{Record, Recorded, Row, WhenInDoubt},
};
use crate::http::base_url;

/// An open ledger in a database, which keeps its rows and knows nothing of the rules.
///
/// Everything here may wait for the disk, the network or other jobs, so only threads that may do that call it.
pub(super) trait Store: Send {
    fn header(&self) -> &Header;

    /// The number of the job that has opened it; 0 if it is none.
    fn job(&self) -> i64;

    /// What this failure comes from.
    fn explain(&self, cause: Cause) -> Cause {
        cause
    }

    fn is_empty(&mut self) -> Result<bool, Cause>;

    /// What it has on each of these keys, all at the same time.
    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause>;

    /// The rows that have one of these agents, with its identifier.
    fn rows_of_agents(&mut self, ids: &[&str]) -> Result<Vec<(KeyHash, String)>, Cause>;

    /// Calls a function with each row as it is now.
    fn for_each(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Cause>;

    /// Changes rows in one transaction, which nobody else can come between, and which is durable when this returns. The
    /// function may be called again if the transaction fails. If it fails itself, or returns false, nothing is changed.
    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause>;

    /// How often a job has to renew that it is alive, if others would otherwise take it for dead.
    fn renewed_every(&self) -> Option<Duration> {
        None
    }

    fn renew(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// Changes what it says about itself.
    fn rename(&mut self, service: &str, keys: Option<&str>) -> Result<(), Cause>;
}

pub(super) type Rows = BTreeMap<KeyHash, Row>;

/// Changes the rows of the keys that were named.
pub(super) type Changes<'a> = &'a mut dyn FnMut(&mut Rows) -> Result<bool, Cause>;

/// The keys of rows that are to be changed.
#[derive(Default)]
#[cfg_attr(
    not(feature = "ledger-postgres"),
    expect(
        dead_code,
        reason = "SQLite locks the whole database, and claims what it has read"
    )
)]
pub(super) struct Touched {
    pub(super) keys: BTreeSet<KeyHash>,
    /// Those that a job wants to claim now.
    pub(super) claims: BTreeSet<KeyHash>,
    pub(super) now: i64,
}

/// An entry of a row that is to be written: what it was, and what it is to be.
pub(super) struct Changed<'a> {
    pub(super) key: KeyHash,
    pub(super) entry: i64,
    pub(super) old: Option<&'a Record>,
    pub(super) new: Option<&'a Record>,
}

/// What makes these rows of a database the others.
pub(super) fn changed<'a>(
    stored: &'a Rows,
    rows: &'a Rows,
) -> impl Iterator<Item = Changed<'a>> + Clone {
    static NONE: Row = Row(Vec::new());
    let changed = |(key, row): (&KeyHash, &'a Row)| {
        let (key, stored) = (*key, stored.get(key).unwrap_or(&NONE));
        let entries = (0..).zip(0..stored.0.len().max(row.0.len()));
        entries.map(move |(entry, at)| Changed {
            key,
            entry,
            old: stored.0.get(at),
            new: row.0.get(at),
        })
    };
    let changed = rows.iter().flat_map(changed);
    changed.filter(|changed| changed.old != changed.new)
}

/// What a ledger says about itself.
#[derive(Clone)]
pub(super) struct Header {
    pub(super) salt: [u8; 32],
    pub(super) service: String,
    pub(super) keys: Option<String>,
}

pub(super) enum Write {
    /// A row is about to be sent or, if it is in doubt, perhaps to be asked about.
    Claim { key: KeyHash, when: WhenInDoubt },
    /// What became of a row; `None` if no part of it reached the service.
    Note { key: KeyHash, noted: Option<Record> },
}

impl Header {
    /// That of a new ledger.
    pub(super) fn new(service: &str, keys: Option<&str>) -> Result<Self, Cause> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Ok(Self {
            salt,
            service: service.to_owned(),
            keys: keys.map(str::to_owned),
        })
    }

    /// What was read from a database.
    pub(super) fn read(
        salt: [u8; 32],
        check: [u8; 16],
        service: String,
        keys: Option<String>,
    ) -> Result<Self, Cause> {
        let this = Self {
            salt,
            service,
            keys,
        };
        if this.check() != check {
            return Err(Cause::Broken("its salt was changed".to_owned()));
        }
        Ok(this)
    }

    pub(super) fn check(&self) -> [u8; 16] {
        key_hash::hash(&self.salt, "").0
    }

    pub(super) fn hash(&self, key: &str) -> KeyHash {
        key_hash::hash(&self.salt, &compared(self.keys.as_deref(), key))
    }
}

impl dyn Store + '_ {
    /// Does something, and says what it failed from.
    pub(super) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        work(self).map_err(|cause| self.explain(cause))
    }

    /// Refuses a job for another service, or with other keys, and notes the name of the keys.
    pub(super) fn bind(&mut self, service: &str, keys: Option<&str>) -> Result<(), Cause> {
        self.refuse_other_service(service)?;
        self.refuse_other_keys(keys)?;
        if keys.is_none() || keys == self.header().keys.as_deref() {
            return Ok(());
        }
        let service = self.header().service.clone();
        self.rename(&service, keys)
    }

    pub(super) fn refuse_other_service(&self, service: &str) -> Result<(), Cause> {
        let theirs = &self.header().service;
        if base_url::is_same(theirs, service) {
            return Ok(());
        }
        Err(Cause::OtherService {
            theirs: theirs.clone(),
            ours: service.to_owned(),
        })
    }

    /// Refuses keys with another name than those of the ledger: it would recognise nobody by them, so that everybody
    /// would be created again. A ledger without rows has nobody to recognise, and accepts any name.
    pub(super) fn refuse_other_keys(&mut self, keys: Option<&str>) -> Result<(), Cause> {
        let (theirs, Some(ours)) = (self.header().keys.clone(), keys) else {
            return Ok(());
        };
        // Keys that had no name so far get one, unless their rows would be looked for in another way from then on.
        let is_accepted = match &theirs {
            Some(theirs) => theirs == ours,
            None => !ignore_case(keys),
        };
        if is_accepted || self.is_empty()? {
            return Ok(());
        }
        Err(Cause::OtherKeys {
            theirs,
            ours: ours.to_owned(),
        })
    }

    /// What is reported for each of these rows instead of sending it; `None` for a row that may be sent.
    pub(super) fn look_up(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Recorded>>, Cause> {
        let recorded = |row: Option<Record>| row.as_ref().and_then(Record::recorded);
        Ok(self.read(keys)?.into_iter().map(recorded).collect())
    }

    /// Writes all of this in one transaction, which is durable when this returns. For a claim that is refused, because
    /// another job was faster, the answer is what that job has recorded.
    pub(super) fn write(&mut self, writes: &[&Write]) -> Result<Vec<Option<Recorded>>, Cause> {
        let (job, now) = (self.job(), now());
        let claims = writes.iter().filter(|write| write.is_claim());
        let touched = Touched {
            keys: writes.iter().map(|write| write.key()).collect(),
            claims: claims.map(|write| write.key()).collect(),
            now,
        };
        let mut answers = Vec::new();
        let mut work = |rows: &mut Rows| {
            answers.clear();
            for write in writes {
                let row = rows.entry(write.key()).or_default();
                answers.push(match write {
                    Write::Claim { when, .. } => row.claim(job, now, *when),
                    Write::Note { noted, .. } => {
                        row.note(job, now, noted.clone());
                        None
                    }
                });
            }
            Ok(true)
        };
        self.change(&touched, &mut work)?;
        Ok(answers)
    }
}

impl Write {
    pub(super) fn is_claim(&self) -> bool {
        matches!(self, Self::Claim { .. })
    }

    fn key(&self) -> KeyHash {
        match self {
            Self::Claim { key, .. } | Self::Note { key, .. } => *key,
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
