//! Interface between a ledger and its database, and the operations that are the same for every database.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    io,
};

use super::{
    error::{Cause, Rejection},
    key_hash::{KeyHash, Salt, ValueHash, ignores_case},
    lease::Liveness,
    row::{AgentOwners, LedgerRow, RequestInfo, Row, RowEntry, WhenUnresolved, check_agent},
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

/// An open ledger in a database. A store reads and writes entries; the rules about entries are in `row`.
///
/// Every method may block on the disk, the network or other jobs. Call them only on threads that may block.
pub(super) trait Store: Send {
    fn header(&self) -> &Header;

    /// Returns the number of the job that has opened the ledger; 0 outside of jobs.
    fn job(&self) -> i64;

    /// Returns the way in which other jobs learn that this job is alive.
    fn liveness(&self) -> Liveness;

    /// Replaces the cause of a failure by a more precise one, if possible.
    fn refine_cause(&self, cause: Cause) -> Cause {
        cause
    }

    fn is_empty(&mut self) -> Result<bool, Cause>;

    /// Returns the current entry of each of these keys, all from one snapshot.
    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<RowEntry>>, Cause>;

    /// Returns, for each of these hashes of e-mail addresses, the current entries of the rows with that address.
    fn read_emails(&mut self, emails: &[ValueHash]) -> Result<Vec<Vec<RowEntry>>, Cause>;

    /// Calls a function with the current entry of each row.
    fn for_each_row(&mut self, visit: &mut dyn FnMut(RowEntry)) -> Result<(), Cause>;

    /// Calls `work`, which changes rows, in one transaction. The transaction is isolated from all others, and durable when this
    /// method returns. If the transaction fails, `work` may be called again. If `work` fails or returns false, nothing is
    /// changed. A transaction with claims fails if other jobs may already consider this job dead.
    fn change_rows(&mut self, scope: &TransactionScope, work: RowsChange<'_>) -> Result<(), Cause>;

    /// Renews the lease of the job. Returns false if the lease has ended.
    fn renew_lease(&mut self) -> Result<bool, Cause> {
        Ok(true)
    }

    /// Changes the header in one transaction, during which no row is claimed. `work` gets the current header and whether the
    /// ledger has no rows; it returns the new header, or `None` to change nothing.
    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause>;
}

/// Computes the new header of a ledger from the current header and whether the ledger has no rows.
pub(super) type HeaderChange<'a> =
    &'a mut dyn FnMut(&Header, bool) -> Result<Option<Header>, Cause>;

pub(super) type Rows = BTreeMap<KeyHash, Row>;

/// Changes the rows in a [`TransactionScope`], given the ledger's current header. Returns false to change nothing.
pub(super) type RowsChange<'a> =
    &'a mut dyn FnMut(&Header, &mut Rows, &mut AgentOwners) -> Result<bool, Cause>;

/// The rows and agents that a transaction depends on.
#[derive(Default)]
#[cfg_attr(
    not(feature = "ledger-postgres"),
    expect(
        dead_code,
        reason = "SQLite locks the whole database, so it needs no separate list of claims"
    )
)]
pub(super) struct TransactionScope {
    /// The keys of all rows to change.
    pub(super) keys: BTreeSet<KeyHash>,
    /// The keys of the rows to claim, each with its request.
    pub(super) claims: BTreeMap<KeyHash, RequestInfo>,
    /// The identifiers of agents whose rows the change depends on.
    pub(super) agents: BTreeSet<String>,
    /// The time of the transaction, in milliseconds since 1970.
    pub(super) now: i64,
}

impl TransactionScope {
    /// Returns whether the transaction only claims rows. Such a transaction may fail if the job is cancelled.
    pub(super) fn has_only_claims(&self) -> bool {
        self.claims.len() == self.keys.len()
    }

    /// Adds the agent of a row, unless its identifier contains U+0000, which PostgreSQL cannot store.
    pub(super) fn add_agent(&mut self, agent_id: Option<&AgentId>) {
        let id = agent_id.map(ToString::to_string);
        self.agents.extend(id.filter(|id| !id.contains('\0')));
    }
}

/// A change of one entry of a row: `old` is `None` for a new entry; `new` is `None` for an entry to be deleted.
pub(super) struct EntryChange<'a> {
    pub(super) key: KeyHash,
    /// The position of the entry in its row, counted from 0.
    pub(super) number: i64,
    pub(super) old: Option<&'a RowEntry>,
    pub(super) new: Option<&'a RowEntry>,
}

/// Returns the changes that turn the stored rows into the new ones.
pub(super) fn diff_entries<'a>(
    stored_rows: &'a Rows,
    rows: &'a Rows,
) -> impl Iterator<Item = EntryChange<'a>> + Clone {
    static EMPTY_ROW: Row = Row(Vec::new());
    let compare = |(key, row): (&KeyHash, &'a Row)| {
        let (key, stored_rows) = (*key, stored_rows.get(key).unwrap_or(&EMPTY_ROW));
        let positions = (0..).zip(0..stored_rows.0.len().max(row.0.len()));
        positions.map(move |(number, index)| EntryChange {
            key,
            number,
            old: stored_rows.0.get(index),
            new: row.0.get(index),
        })
    };
    let entries = rows.iter().flat_map(compare);
    entries.filter(|change| change.old != change.new)
}

/// The header of a ledger: the salt of its hashes, its service, and the name of its keys.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) salt: Salt,
    /// The base URL of the service.
    pub(super) service: String,
    pub(super) key_name: Option<String>,
}

/// One write of a job.
pub(super) enum Write {
    /// Claims a row, before the job sends it or asks about it. Other jobs do not send a claimed row.
    Claim {
        key: KeyHash,
        when_unresolved: WhenUnresolved,
        /// True if the claim may take a rejected row whose request has changed.
        resends_corrected: bool,
        request: RequestInfo,
    },
    /// Records the outcome of a row; `None` if no part of the request reached the service.
    RecordOutcome {
        key: KeyHash,
        outcome: Option<RowEntry>,
    },
    /// Records the agent of a claimed row, or that the row has no agent. `index` is the row's index in the job.
    Resolve {
        key: KeyHash,
        index: usize,
        agent_id: Option<AgentId>,
    },
}

/// The result of one write. `Ok(Some(row))` rejects a claim, because of this existing row. An error has the index of a row and
/// the reason why the row cannot have the agent.
pub(super) type WriteResult = Result<Option<LedgerRow>, (usize, Rejection)>;

impl Header {
    /// Makes the header of a new ledger, with a random salt.
    pub(super) fn new(service: &str, key_name: Option<&str>) -> Result<Self, Cause> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Ok(Self {
            salt: Salt(salt),
            service: service.to_owned(),
            key_name: key_name.map(str::to_owned),
        })
    }

    /// Makes a header from the columns of the table `ledger`. Fails if they do not match the check value.
    pub(super) fn from_columns(
        salt: [u8; 32],
        check: [u8; 16],
        service: String,
        key_name: Option<String>,
    ) -> Result<Self, Cause> {
        let this = Self {
            salt: Salt(salt),
            service,
            key_name,
        };
        if this.compute_check() != check {
            return Err(Cause::Broken("its header was changed".to_owned()));
        }
        Ok(this)
    }

    /// Computes the check value of the whole header.
    pub(super) fn compute_check(&self) -> [u8; 16] {
        let mut bytes = Vec::new();
        for field in [Some(&self.service), self.key_name.as_ref()] {
            bytes.push(u8::from(field.is_some()));
            let field = field.map_or("", String::as_str);
            bytes.extend((field.len() as u64).to_be_bytes());
            bytes.extend(field.as_bytes());
        }
        self.salt.hash_header(&bytes)
    }

    pub(super) fn hash(&self, key: &str) -> KeyHash {
        self.salt.hash_key(self.key_name.as_deref(), key)
    }

    /// Fails if the header has changed: `self` is the header that a job read when it opened the ledger, and `current` is the
    /// ledger's header now.
    pub(super) fn check_unchanged(&self, current: &Self) -> Result<(), Cause> {
        if self.salt != current.salt {
            return Err(Cause::Moved("replaced"));
        }
        current.check_service(&self.service)?;
        if self.key_name != current.key_name {
            return Err(Cause::OtherKeys {
                ledger_name: current.key_name.clone(),
                used_name: self.key_name.clone(),
            });
        }
        Ok(())
    }

    /// Fails if this is the ledger of another service.
    pub(super) fn check_service(&self, service: &str) -> Result<(), Cause> {
        if base_url::is_equivalent(&self.service, service) {
            return Ok(());
        }
        Err(Cause::OtherService {
            ledger_url: self.service.clone(),
            client_url: service.to_owned(),
        })
    }

    /// Fails if the keys in use have another name than the ledger's keys. With such keys, the ledger would recognise none of
    /// its rows, and every agent would be created again. A ledger without rows accepts any name.
    pub(super) fn check_key_name(
        &self,
        key_name: Option<&str>,
        is_empty: impl FnOnce() -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        let Some(used_name) = key_name else {
            return Ok(());
        };
        // Keys without a name may get a name, unless that name changes how keys are compared: the existing rows would then not
        // be found.
        let is_accepted = match &self.key_name {
            Some(ledger_name) => ledger_name == used_name,
            None => !ignores_case(key_name),
        };
        if is_accepted || is_empty()? {
            return Ok(());
        }
        Err(Cause::OtherKeys {
            ledger_name: self.key_name.clone(),
            used_name: Some(used_name.to_owned()),
        })
    }
}

impl dyn Store + '_ {
    /// Calls a function on this store, and makes the cause of its failure more precise.
    pub(super) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        work(self).map_err(|cause| self.refine_cause(cause))
    }

    /// Fails if the job is for another service or its keys have another name; otherwise records the name of the keys.
    pub(super) fn bind_key_name(
        &mut self,
        service: &str,
        key_name: Option<&str>,
    ) -> Result<(), Cause> {
        let has_name =
            |header: &Header| key_name.is_none() || key_name == header.key_name.as_deref();
        if has_name(self.header()) {
            return self.header().check_service(service);
        }
        self.change_header(&mut |header, is_empty| {
            header.check_service(service)?;
            header.check_key_name(key_name, || Ok(is_empty))?;
            Ok((!has_name(header)).then(|| Header {
                key_name: key_name.map(str::to_owned),
                ..header.clone()
            }))
        })
    }

    /// Fails if the keys of a look-up have another name than the ledger's keys.
    pub(super) fn check_key_name(&mut self, key_name: Option<&str>) -> Result<(), Cause> {
        let header = self.header().clone();
        header.check_key_name(key_name, || self.is_empty())
    }

    /// Returns the result to report for each of these rows instead of sending it; `None` for a row that may be sent.
    pub(super) fn look_up(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<LedgerRow>>, Cause> {
        let to_row = |entry: Option<RowEntry>| entry.as_ref().and_then(RowEntry::to_ledger_row);
        Ok(self.read(keys)?.into_iter().map(to_row).collect())
    }

    /// Performs writes in one transaction, which is durable when this returns. `earlier_jobs` are other job numbers under which
    /// the rows may have been claimed, before the ledger was reopened; `now` is the time in milliseconds since 1970.
    pub(super) fn write(
        &mut self,
        writes: &[&Write],
        earlier_jobs: &[i64],
        now: i64,
    ) -> Result<Vec<WriteResult>, Cause> {
        let (job, opened) = (self.job(), self.header().clone());
        let jobs = [&[job], earlier_jobs].concat();
        let mut scope = TransactionScope {
            keys: writes.iter().map(|write| write.key()).collect(),
            now,
            ..TransactionScope::default()
        };
        for write in writes {
            match write {
                Write::Claim { key, request, .. } => {
                    scope.claims.insert(*key, request.clone());
                }
                Write::Resolve { agent_id, .. } => {
                    scope.add_agent(agent_id.as_ref());
                }
                Write::RecordOutcome { .. } => {}
            }
        }
        let mut results = Vec::new();
        let has_claims = !scope.claims.is_empty();
        let mut work = |header: &Header, rows: &mut Rows, owners: &mut AgentOwners| {
            if has_claims {
                opened.check_unchanged(header)?;
            }
            results.clear();
            for write in writes {
                let row = rows.entry(write.key()).or_default();
                results.push(match write {
                    Write::Claim {
                        when_unresolved,
                        resends_corrected,
                        request,
                        ..
                    } => {
                        let (when, corrected) = (*when_unresolved, *resends_corrected);
                        Ok(row.claim(job, now, when, corrected, request))
                    }
                    Write::RecordOutcome { outcome, .. } => {
                        row.record_outcome(&jobs, now, outcome.clone());
                        Ok(None)
                    }
                    Write::Resolve {
                        key,
                        index,
                        agent_id,
                    } => match check_agent(owners, *key, agent_id.as_ref()) {
                        Ok(()) => {
                            row.record_outcome(
                                &jobs,
                                now,
                                Some(row.new_resolution(agent_id.as_ref())),
                            );
                            Ok(None)
                        }
                        Err(rejection) => Err((*index, rejection)),
                    },
                });
            }
            Ok(true)
        };
        self.change_rows(&scope, &mut work)?;
        Ok(results)
    }
}

impl Write {
    pub(super) fn is_claim(&self) -> bool {
        matches!(self, Self::Claim { .. })
    }

    fn key(&self) -> KeyHash {
        match self {
            Self::Claim { key, .. }
            | Self::RecordOutcome { key, .. }
            | Self::Resolve { key, .. } => *key,
        }
    }
}
