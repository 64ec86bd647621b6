//! A ledger in memory, for the simulator: a database whose faults a [`Process`] decides. Its jobs have leases, as in
//! PostgreSQL.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, future,
    hash::{Hash, Hasher},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::{
    clock::Clock,
    error::{Cause, LedgerLocation},
    key_hash::{KeyHash, Salt, ValueHash},
    lease::{LEASE, Liveness},
    process::{Access, Process, TransactionEnd},
    row::{AgentOwners, Job, Row, RowEntry},
    store::{Header, HeaderChange, Rows, RowsChange, Store, TransactionScope, diff_entries},
    worker::{NextAction, Worker},
};

/// A simulated database. Clones share their tables.
#[derive(Clone)]
pub struct Database(Arc<Mutex<Tables>>);

struct Tables {
    /// The start of the database's clock.
    clock_start: Instant,
    header: Option<Header>,
    rows: Rows,
    /// The end of each job's lease.
    lease_ends: BTreeMap<i64, Duration>,
    last_job: u32,
    /// The jobs that have learned from the database that their leases have ended.
    rejected_jobs: BTreeSet<i64>,
    /// The number of claims that were committed although the ledger's header had changed since the job opened the ledger.
    misplaced_claims: usize,
    /// True while the ledger is replaced by another ledger with its name.
    is_moved: bool,
    /// The entries of a transaction whose response was lost. The transaction is committed before the next one begins.
    pending_entries: Vec<(KeyHash, i64, Option<RowEntry>)>,
}

/// A committed entry of a row. The last entry of a row is the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedEntry {
    /// The state: `sending`, `succeeded`, `rejected`, `unknown` or `resolved`.
    pub state: &'static str,
    /// The agent's identifier.
    pub agent_id: Option<String>,
    /// The status of the response, if the row was rejected or its outcome is unknown.
    pub status: Option<u16>,
    /// The hash of the request.
    pub request: Option<[u8; 16]>,
    /// The number of the job that has claimed the row.
    pub job: Option<i64>,
    /// The number of the process of that job.
    pub process: Option<u32>,
    /// True if the lease of that job has not ended.
    pub is_alive: bool,
}

impl Database {
    /// Makes a database without tables, whose clock starts now.
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Tables {
            clock_start: Instant::now(),
            header: None,
            rows: Rows::new(),
            lease_ends: BTreeMap::new(),
            last_job: 0,
            rejected_jobs: BTreeSet::new(),
            misplaced_claims: 0,
            is_moved: false,
            pending_entries: Vec::new(),
        })))
    }

    /// Returns the committed entries of the row with this key, oldest first.
    pub fn entries(&self, key: &str) -> Vec<CommittedEntry> {
        let tables = self.lock_tables();
        let key = tables.header.as_ref().map(|header| header.hash(key));
        let row = key.map(|key| tables.read_row(&key)).unwrap_or_default();
        row.0.iter().map(CommittedEntry::from_row_entry).collect()
    }

    /// Returns the committed entries of all rows, oldest first.
    pub fn rows(&self) -> Vec<Vec<CommittedEntry>> {
        let tables = self.lock_tables();
        let rows = tables.rows.keys().map(|key| tables.read_row(key));
        rows.map(|row| row.0.iter().map(CommittedEntry::from_row_entry).collect())
            .collect()
    }

    /// Ends the leases of all jobs, as if they had not been renewed in time.
    pub fn end_leases(&self) {
        self.lock_tables().lease_ends.clear();
    }

    /// Replaces the ledger by another ledger if `is_moved` is true, or else restores it.
    pub fn set_moved(&self, is_moved: bool) {
        self.lock_tables().is_moved = is_moved;
    }

    /// Returns the numbers of the jobs that have learned from the database that they may send nothing more.
    pub fn rejected_jobs(&self) -> BTreeSet<i64> {
        self.lock_tables().rejected_jobs.clone()
    }

    /// Returns the number of claims that were committed although the header had changed since their jobs opened the ledger.
    pub fn misplaced_claims(&self) -> usize {
        self.lock_tables().misplaced_claims
    }

    fn lock_tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl CommittedEntry {
    fn from_row_entry(entry: &RowEntry) -> Self {
        Self {
            state: entry.state.as_str(),
            agent_id: entry.agent_id.clone(),
            status: entry.status,
            request: entry.request.body_hash.as_ref().map(|hash| hash.0),
            job: entry.job.map(|job| job.number),
            process: entry.job.map(|job| process_number(job.number)),
            is_alive: entry.is_in_flight(),
        }
    }
}

fn process_number(job: i64) -> u32 {
    u32::try_from(job >> 32).unwrap_or_default()
}

impl Tables {
    fn is_alive(&self, job: i64) -> bool {
        let now = self.clock_start.elapsed();
        self.lease_ends
            .get(&job)
            .is_some_and(|lease_end| *lease_end > now)
    }

    /// Returns the row with this key, and sets for each job of its entries whether the job is alive now.
    fn read_row(&self, key: &KeyHash) -> Row {
        let mut row = self.rows.get(key).cloned().unwrap_or_default();
        for entry in &mut row.0 {
            entry.job = entry.job.map(|job| Job {
                is_alive: self.is_alive(job.number),
                ..job
            });
        }
        row
    }

    fn write_entries(
        &mut self,
        entries: impl IntoIterator<Item = (KeyHash, i64, Option<RowEntry>)>,
    ) {
        for (key, number, entry) in entries {
            let row = &mut self.rows.entry(key).or_default().0;
            let number = usize::try_from(number).unwrap_or_default();
            match (entry, row.get_mut(number)) {
                (Some(entry), Some(old)) => *old = entry,
                (Some(entry), None) => row.push(entry),
                (None, _) => row.truncate(number),
            }
        }
        self.rows.retain(|_, row| !row.0.is_empty());
    }

    /// Commits the transaction whose response was lost. Other transactions wait for this commit, because the transaction has
    /// locked its rows.
    fn end_pending(&mut self) {
        let pending_entries = std::mem::take(&mut self.pending_entries);
        self.write_entries(pending_entries);
    }

    fn find_owners(&self, agent: &str) -> Vec<KeyHash> {
        let has_agent =
            |row: &Row| row.current().and_then(|entry| entry.agent_id.as_deref()) == Some(agent);
        let rows = self.rows.iter().filter(|(_, row)| has_agent(row));
        rows.map(|(key, _)| *key).collect()
    }
}

/// The ledger in a simulated database, as one process uses it.
#[derive(Clone, Debug)]
pub(super) struct SimulatedLedger {
    pub(super) database: Database,
    pub(super) process: Arc<dyn Process>,
}

impl PartialEq for SimulatedLedger {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.database.0, &other.database.0)
            && self.process.number() == other.process.number()
    }
}

impl Eq for SimulatedLedger {}

impl Hash for SimulatedLedger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.process.number().hash(state);
    }
}

impl SimulatedLedger {
    pub(super) fn clock(&self) -> Clock {
        Clock {
            process: Some(Arc::clone(&self.process)),
        }
    }

    pub(super) fn location(&self) -> LedgerLocation {
        LedgerLocation::Database("memory".into())
    }

    /// Runs the worker of a job as a task of the process.
    pub(super) fn spawn_worker(&self, mut worker: Worker) {
        let process = Arc::clone(&self.process);
        Arc::clone(&process).spawn(Box::pin(async move {
            loop {
                match worker.next_action() {
                    NextAction::Step(command) => {
                        process.wait().await;
                        let replies = worker.execute(command);
                        process.wait().await;
                        replies.send();
                    }
                    NextAction::End => return,
                    NextAction::Wait(limit) => {
                        let requests = future::poll_fn(|context| worker.poll_requests(context));
                        let _ = timeout(limit.unwrap_or(Duration::MAX), requests).await;
                    }
                }
            }
        }));
    }

    pub(super) fn open(&self) -> Result<Option<MemoryStore>, Cause> {
        self.begin_transaction(Access::Read)?;
        let header = self.database.lock_tables().header.clone();
        Ok(header.map(|header| MemoryStore {
            ledger: self.clone(),
            header,
            job: 0,
        }))
    }

    pub(super) fn open_to_send(
        &self,
        service: &str,
        key_name: Option<&str>,
    ) -> Result<MemoryStore, Cause> {
        self.begin_transaction(Access::Open)?;
        let mut tables = self.database.lock_tables();
        if tables.is_moved {
            return Err(Cause::Unreachable("it is being restored".to_owned()));
        }
        let header = tables.header.get_or_insert_with(|| Header {
            salt: Salt([0; 32]),
            service: service.to_owned(),
            key_name: key_name.map(str::to_owned),
        });
        let header = header.clone();
        tables.last_job += 1;
        let job = (i64::from(self.process.number()) << 32) | i64::from(tables.last_job);
        let lease_end = tables.clock_start.elapsed() + LEASE;
        tables.lease_ends.insert(job, lease_end);
        Ok(MemoryStore {
            ledger: self.clone(),
            header,
            job,
        })
    }

    /// Begins a transaction. Returns the end that the simulated process has chosen for it, such as a lost response. Fails if
    /// the database cannot be used.
    fn begin_transaction(&self, access: Access) -> Result<TransactionEnd, Cause> {
        let unreachable = || Cause::Unreachable("the connection is broken".to_owned());
        match self.process.transaction_end(access) {
            _ if self.process.has_ended() => Err(unreachable()),
            TransactionEnd::Unreachable => Err(unreachable()),
            TransactionEnd::DiskFull => Err(io::Error::from(io::ErrorKind::StorageFull).into()),
            transaction_end => Ok(transaction_end),
        }
    }
}

/// An open ledger in memory.
pub(super) struct MemoryStore {
    ledger: SimulatedLedger,
    header: Header,
    job: i64,
}

impl MemoryStore {
    fn read_tables<T>(&self, work: impl FnOnce(&Tables) -> T) -> Result<T, Cause> {
        self.ledger.begin_transaction(Access::Read)?;
        Ok(work(&self.ledger.database.lock_tables()))
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        if !self.ledger.process.has_ended() {
            self.ledger
                .database
                .lock_tables()
                .lease_ends
                .remove(&self.job);
        }
    }
}

impl Store for MemoryStore {
    fn header(&self) -> &Header {
        &self.header
    }

    fn job(&self) -> i64 {
        self.job
    }

    fn liveness(&self) -> Liveness {
        Liveness::Lease
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        self.read_tables(|tables| tables.rows.is_empty())
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<RowEntry>>, Cause> {
        self.read_tables(|tables| {
            keys.iter()
                .map(|key| tables.read_row(key).0.pop())
                .collect()
        })
    }

    fn read_emails(&mut self, emails: &[ValueHash]) -> Result<Vec<Vec<RowEntry>>, Cause> {
        self.read_tables(|tables| {
            let rows = tables.rows.iter();
            let find_rows = |email: &ValueHash| {
                let has_email = |entry: &RowEntry| entry.request.email_hash.as_ref() == Some(email);
                let rows = rows.clone().filter(|(_, row)| row.0.iter().any(has_email));
                rows.filter_map(|(key, _)| tables.read_row(key).0.pop())
                    .collect()
            };
            emails.iter().map(find_rows).collect()
        })
    }

    fn for_each_row(&mut self, visit: &mut dyn FnMut(RowEntry)) -> Result<(), Cause> {
        self.read_tables(|tables| {
            let rows = tables.rows.keys();
            rows.filter_map(|key| tables.read_row(key).0.pop())
                .for_each(&mut *visit);
        })
    }

    fn change_rows(&mut self, scope: &TransactionScope, work: RowsChange<'_>) -> Result<(), Cause> {
        let has_claims = !scope.claims.is_empty();
        let transaction_end = self.ledger.begin_transaction(match has_claims {
            true => Access::Claim,
            false => Access::Record,
        })?;
        let mut tables = self.ledger.database.lock_tables();
        tables.end_pending();
        let header = tables.header.clone().ok_or(Cause::Moved("deleted"))?;
        if tables.is_moved {
            return Err(Cause::Moved("replaced"));
        }
        if has_claims && !tables.is_alive(self.job) {
            tables.rejected_jobs.insert(self.job);
            return Err(Cause::LeaseLost);
        }
        let stored_rows: Rows = scope
            .keys
            .iter()
            .map(|key| (*key, tables.read_row(key)))
            .collect();
        let mut rows = stored_rows.clone();
        let agents = scope.agents.iter();
        let mut owners: AgentOwners = agents
            .map(|agent| (agent.clone(), tables.find_owners(agent)))
            .collect();
        if !work(&header, &mut rows, &mut owners)? {
            return Ok(());
        }
        let entries = diff_entries(&stored_rows, &rows);
        let entries = entries.map(|change| (change.key, change.number, change.new.cloned()));
        let entries: Vec<_> = entries.collect();
        let is_misplaced = has_claims && header != self.header;
        tables.misplaced_claims += usize::from(is_misplaced);
        if let TransactionEnd::Unanswered { commits } = transaction_end {
            if commits {
                tables.pending_entries = entries;
            }
            return Err(Cause::Unreachable("the connection broke".to_owned()));
        }
        tables.write_entries(entries);
        Ok(())
    }

    fn renew_lease(&mut self) -> Result<bool, Cause> {
        let transaction_end = self.ledger.begin_transaction(Access::Renew)?;
        let mut tables = self.ledger.database.lock_tables();
        let is_alive = tables.is_alive(self.job);
        if is_alive && transaction_end != (TransactionEnd::Unanswered { commits: false }) {
            let lease_end = tables.clock_start.elapsed() + LEASE;
            tables.lease_ends.insert(self.job, lease_end);
        }
        match transaction_end {
            TransactionEnd::Unanswered { .. } => {
                Err(Cause::Unreachable("the connection broke".to_owned()))
            }
            _ => {
                if !is_alive {
                    tables.rejected_jobs.insert(self.job);
                }
                Ok(is_alive)
            }
        }
    }

    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause> {
        let mut tables = self.ledger.database.lock_tables();
        let current = tables.header.clone().ok_or(Cause::Moved("deleted"))?;
        let new = work(&current, tables.rows.is_empty())?.unwrap_or(current);
        tables.header = Some(new.clone());
        self.header = new;
        Ok(())
    }
}
