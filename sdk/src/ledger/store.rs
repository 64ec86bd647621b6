//! What a ledger needs of a database, and what follows from that for every database.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    io,
};

use super::{
    error::{Cause, Refusal},
    key_hash::{Digest, KeyHash, Salt, ignore_case},
    lease::Liveness,
    state::{AgentOwners, LedgerRow, Record, RequestInfo, Row, WhenUnresolved, check_agent},
};
use crate::{transport::base_url, value::AgentId};

/// The version of the format, the same in every kind of database.
pub(super) const FORMAT: i64 = 2;

/// Rejects a ledger whose format has another version.
pub(super) fn check_format(version: i64) -> Result<(), Cause> {
    match version.cmp(&FORMAT) {
        Ordering::Less => Err(Cause::NotALedger(
            "its format is from before the first release of dealkit",
        )),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(Cause::NewerFormat(version)),
    }
}

/// An open ledger in a database, which keeps its rows and knows nothing of the rules.
///
/// Everything here may wait for the disk, the network or other jobs, so only threads that may do that call it.
pub(super) trait Store: Send {
    fn header(&self) -> &Header;

    /// The number of the job that has opened it; 0 if it is none.
    fn job(&self) -> i64;

    /// The way in which other jobs learn that this one is alive.
    fn liveness(&self) -> Liveness;

    /// Returns the cause of a failure.
    fn explain(&self, cause: Cause) -> Cause {
        cause
    }

    fn is_empty(&mut self) -> Result<bool, Cause>;

    /// Returns the latest record of each of these keys, all as of one moment.
    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause>;

    /// Returns the latest records of the rows with each of these hashes of an e-mail address.
    fn read_emails(&mut self, emails: &[Digest]) -> Result<Vec<Vec<Record>>, Cause>;

    /// Calls a function with each row as it is now.
    fn for_each(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Cause>;

    /// Changes rows in one transaction, isolated from all others, and durable when this returns. The function may be called
    /// again if the transaction fails. If it fails itself, or returns false, nothing is changed. A transaction with claims
    /// fails if other jobs may already take this one for dead.
    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause>;

    /// Renews the lease of the job. Returns false if it has ended.
    fn renew(&mut self) -> Result<bool, Cause> {
        Ok(true)
    }

    /// Changes the header in one transaction, which sees no claim come or go. The function gets the current header and
    /// whether the ledger has no rows, and returns the new header, or `None` to change nothing.
    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause>;
}

/// Decides on the new header of a ledger, given the current header and whether the ledger has no rows.
pub(super) type HeaderChange<'a> =
    &'a mut dyn FnMut(&Header, bool) -> Result<Option<Header>, Cause>;

pub(super) type Rows = BTreeMap<KeyHash, Row>;

/// Changes the rows of the keys that were named, in a ledger that has this header now.
pub(super) type Changes<'a> =
    &'a mut dyn FnMut(&Header, &mut Rows, &mut AgentOwners) -> Result<bool, Cause>;

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
    /// The keys that a job wants to claim now, each with its request.
    pub(super) claims: BTreeMap<KeyHash, RequestInfo>,
    /// The identifiers of agents whose rows the change depends on.
    pub(super) agents: BTreeSet<String>,
    pub(super) now: i64,
}

impl Touched {
    /// Returns whether all of them are only claimed: if the job is cancelled meanwhile, the transaction may fail.
    pub(super) fn are_claims(&self) -> bool {
        self.claims.len() == self.keys.len()
    }

    /// Adds the agent of a row, unless no database can have its identifier.
    pub(super) fn add_agent(&mut self, agent_id: Option<&AgentId>) {
        let id = agent_id.map(ToString::to_string);
        self.agents.extend(id.filter(|id| !id.contains('\0')));
    }
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

/// The part of a ledger that says whose rows it has.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) salt: Salt,
    pub(super) service: String,
    pub(super) keys: Option<String>,
}

pub(super) enum Write {
    /// A row is about to be sent or, if it is unresolved, perhaps to be asked about.
    Claim {
        key: KeyHash,
        when: WhenUnresolved,
        request: RequestInfo,
    },
    /// The outcome of a row; `None` if no part of it reached the service.
    Note { key: KeyHash, noted: Option<Record> },
    /// The agent of a claimed row, which has this index in the job, or that there is none.
    Resolve {
        key: KeyHash,
        index: usize,
        agent_id: Option<AgentId>,
    },
}

/// The result of one write: what another job has recorded if a claim is rejected; or why an agent cannot be that of a row.
pub(super) type Written = Result<Option<LedgerRow>, (usize, Refusal)>;

impl Header {
    /// That of a new ledger.
    pub(super) fn new(service: &str, keys: Option<&str>) -> Result<Self, Cause> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Ok(Self {
            salt: Salt(salt),
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
            salt: Salt(salt),
            service,
            keys,
        };
        if this.check() != check {
            return Err(Cause::Broken("its header was changed".to_owned()));
        }
        Ok(this)
    }

    /// The check value of the whole header.
    pub(super) fn check(&self) -> [u8; 16] {
        let mut bytes = Vec::new();
        for text in [Some(&self.service), self.keys.as_ref()] {
            bytes.push(u8::from(text.is_some()));
            let text = text.map_or("", String::as_str);
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        self.salt.hash_header(&bytes)
    }

    pub(super) fn hash(&self, key: &str) -> KeyHash {
        self.salt.hash_key(self.keys.as_deref(), key)
    }

    /// Rejects a job that was opened with this header if the ledger has another header by now.
    pub(super) fn refuse_other(&self, now: &Self) -> Result<(), Cause> {
        if self.salt != now.salt {
            return Err(Cause::Moved("replaced"));
        }
        now.refuse_other_service(&self.service)?;
        if self.keys != now.keys {
            return Err(Cause::OtherKeys {
                theirs: now.keys.clone(),
                ours: self.keys.clone(),
            });
        }
        Ok(())
    }

    pub(super) fn refuse_other_service(&self, service: &str) -> Result<(), Cause> {
        if base_url::is_same(&self.service, service) {
            return Ok(());
        }
        Err(Cause::OtherService {
            theirs: self.service.clone(),
            ours: service.to_owned(),
        })
    }

    /// Rejects keys with another name than those of the ledger: it would recognise no row by them, so that every agent would be
    /// created again. A ledger without rows has no row to recognise, and accepts any name.
    pub(super) fn refuse_other_keys(
        &self,
        keys: Option<&str>,
        is_empty: impl FnOnce() -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        let Some(ours) = keys else {
            return Ok(());
        };
        // Keys that had no name so far get one, unless their rows would be looked for in another way from then on.
        let is_accepted = match &self.keys {
            Some(theirs) => theirs == ours,
            None => !ignore_case(keys),
        };
        if is_accepted || is_empty()? {
            return Ok(());
        }
        Err(Cause::OtherKeys {
            theirs: self.keys.clone(),
            ours: Some(ours.to_owned()),
        })
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

    /// Rejects a job for another service, or with other keys, and records the name of the keys.
    pub(super) fn bind(&mut self, service: &str, keys: Option<&str>) -> Result<(), Cause> {
        let has_name = |header: &Header| keys.is_none() || keys == header.keys.as_deref();
        if has_name(self.header()) {
            return self.header().refuse_other_service(service);
        }
        self.change_header(&mut |header, is_empty| {
            header.refuse_other_service(service)?;
            header.refuse_other_keys(keys, || Ok(is_empty))?;
            Ok((!has_name(header)).then(|| Header {
                keys: keys.map(str::to_owned),
                ..header.clone()
            }))
        })
    }

    /// Rejects a look-up with other keys than those of the ledger.
    pub(super) fn refuse_other_keys(&mut self, keys: Option<&str>) -> Result<(), Cause> {
        let header = self.header().clone();
        header.refuse_other_keys(keys, || self.is_empty())
    }

    /// What is reported for each of these rows instead of sending it; `None` for a row that may be sent.
    pub(super) fn look_up(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<LedgerRow>>, Cause> {
        let recorded = |row: Option<Record>| row.as_ref().and_then(Record::recorded);
        Ok(self.read(keys)?.into_iter().map(recorded).collect())
    }

    /// Writes all of this in one transaction at this time, in milliseconds since 1970. It is durable when this returns. `earlier` are
    /// the numbers of jobs under which the rows may have been claimed before the ledger was opened again.
    pub(super) fn write(
        &mut self,
        writes: &[&Write],
        earlier: &[i64],
        now: i64,
    ) -> Result<Vec<Written>, Cause> {
        let (job, opened) = (self.job(), self.header().clone());
        let jobs = [&[job], earlier].concat();
        let mut touched = Touched {
            keys: writes.iter().map(|write| write.key()).collect(),
            now,
            ..Touched::default()
        };
        for write in writes {
            match write {
                Write::Claim { key, request, .. } => {
                    touched.claims.insert(*key, request.clone());
                }
                Write::Resolve { agent_id, .. } => {
                    touched.add_agent(agent_id.as_ref());
                }
                Write::Note { .. } => {}
            }
        }
        let mut answers = Vec::new();
        let has_claims = !touched.claims.is_empty();
        let mut work = |header: &Header, rows: &mut Rows, owners: &mut AgentOwners| {
            if has_claims {
                opened.refuse_other(header)?;
            }
            answers.clear();
            for write in writes {
                let row = rows.entry(write.key()).or_default();
                answers.push(match write {
                    Write::Claim { when, request, .. } => Ok(row.claim(job, now, *when, request)),
                    Write::Note { noted, .. } => {
                        row.note(&jobs, now, noted.clone());
                        Ok(None)
                    }
                    Write::Resolve {
                        key,
                        index,
                        agent_id,
                    } => match check_agent(owners, *key, agent_id.as_ref()) {
                        Ok(()) => {
                            row.note(&jobs, now, Some(row.resolved(agent_id.as_ref())));
                            Ok(None)
                        }
                        Err(refusal) => Err((*index, refusal)),
                    },
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
            Self::Claim { key, .. } | Self::Note { key, .. } | Self::Resolve { key, .. } => *key,
        }
    }
}
