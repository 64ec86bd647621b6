//! A ledger in memory, for the simulator: a database that fails when its [`Process`] says so. Its jobs have leases, as in
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
    error::{Cause, Place},
    key_hash::{Digest, KeyHash, Salt},
    lease::{LEASE, Liveness},
    process::{Access, Process, TransactionEnd},
    state::{AgentOwners, Job, Record, Row},
    store::{Changes, Header, HeaderChange, Rows, Store, Touched, changed},
    worker::{Next, Worker},
};

/// A simulated database. Clones share their tables.
#[derive(Clone)]
pub struct Database(Arc<Mutex<Tables>>);

struct Tables {
    /// When its clock began.
    began: Instant,
    header: Option<Header>,
    rows: Rows,
    /// The end of each job's lease.
    jobs: BTreeMap<i64, Duration>,
    last_job: u32,
    /// The jobs that were told that their leases have ended.
    rejected: BTreeSet<i64>,
    misplaced_claims: usize,
    is_moved: bool,
    /// Entries of a transaction without a response, which will be committed.
    pending: Vec<(KeyHash, i64, Option<Record>)>,
}

/// An entry of a row that is committed: the last one of a row counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its state: `sending`, `succeeded`, `rejected`, `unknown` or `resolved`.
    pub state: &'static str,
    /// The agent's identifier.
    pub agent_id: Option<String>,
    /// The number of the job that is sending the row, and of its process.
    pub job: Option<i64>,
    /// The number of the process of that job.
    pub process: Option<u32>,
    /// True if the lease of that job has not ended.
    pub is_alive: bool,
}

impl Database {
    /// A database without tables, whose clock begins now.
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Tables {
            began: Instant::now(),
            header: None,
            rows: Rows::new(),
            jobs: BTreeMap::new(),
            last_job: 0,
            rejected: BTreeSet::new(),
            misplaced_claims: 0,
            is_moved: false,
            pending: Vec::new(),
        })))
    }

    /// The committed entries of a row with this key, oldest first.
    pub fn entries(&self, key: &str) -> Vec<Entry> {
        let tables = self.lock();
        let key = tables.header.as_ref().map(|header| header.hash(key));
        let row = key.map(|key| tables.row(&key)).unwrap_or_default();
        row.0.iter().map(Entry::of).collect()
    }

    /// The committed entries of all rows, oldest first.
    pub fn rows(&self) -> Vec<Vec<Entry>> {
        let tables = self.lock();
        let rows = tables.rows.keys().map(|key| tables.row(key));
        rows.map(|row| row.0.iter().map(Entry::of).collect())
            .collect()
    }

    /// Ends the leases of all jobs, as if they had not been heard from.
    pub fn end_leases(&self) {
        self.lock().jobs.clear();
    }

    /// Puts another ledger in its place, or puts it back.
    pub fn set_moved(&self, is_moved: bool) {
        self.lock().is_moved = is_moved;
    }

    /// The numbers of the jobs that have learned from the database that they may send nothing more.
    pub fn rejected_jobs(&self) -> BTreeSet<i64> {
        self.lock().rejected.clone()
    }

    /// The claims that were committed although the ledger had another header than when its job was opened.
    pub fn misplaced_claims(&self) -> usize {
        self.lock().misplaced_claims
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl Entry {
    fn of(record: &Record) -> Self {
        Self {
            state: record.state.as_str(),
            agent_id: record.agent_id.clone(),
            job: record.job.map(|job| job.number),
            process: record.job.map(|job| process_of(job.number)),
            is_alive: record.is_in_flight(),
        }
    }
}

fn process_of(job: i64) -> u32 {
    u32::try_from(job >> 32).unwrap_or_default()
}

impl Tables {
    fn is_alive(&self, job: i64) -> bool {
        let now = self.began.elapsed();
        self.jobs.get(&job).is_some_and(|until| *until > now)
    }

    /// A row, with what is known of its job now.
    fn row(&self, key: &KeyHash) -> Row {
        let mut row = self.rows.get(key).cloned().unwrap_or_default();
        for record in &mut row.0 {
            record.job = record.job.map(|job| Job {
                is_alive: self.is_alive(job.number),
                ..job
            });
        }
        row
    }

    fn put(&mut self, entries: impl IntoIterator<Item = (KeyHash, i64, Option<Record>)>) {
        for (key, entry, record) in entries {
            let row = &mut self.rows.entry(key).or_default().0;
            let entry = usize::try_from(entry).unwrap_or_default();
            match (record, row.get_mut(entry)) {
                (Some(record), Some(old)) => *old = record,
                (Some(record), None) => row.push(record),
                (None, _) => row.truncate(entry),
            }
        }
        self.rows.retain(|_, row| !row.0.is_empty());
    }

    /// Ends the transaction without a response: until then, it has locked its rows.
    fn end_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.put(pending);
    }

    fn owners(&self, agent: &str) -> Vec<KeyHash> {
        let has_agent =
            |row: &Row| row.current().and_then(|record| record.agent_id.as_deref()) == Some(agent);
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

    pub(super) fn place(&self) -> Place {
        Place::Database("memory".into())
    }

    /// Runs the worker of a job as a task of the process.
    pub(super) fn drive(&self, mut worker: Worker) {
        let process = Arc::clone(&self.process);
        Arc::clone(&process).spawn(Box::pin(async move {
            loop {
                match worker.next() {
                    Next::Step(command) => {
                        process.wait().await;
                        let replies = worker.step(command);
                        process.wait().await;
                        replies.send();
                    }
                    Next::End => return,
                    Next::Wait(limit) => {
                        let requests = future::poll_fn(|context| worker.poll_requests(context));
                        let _ = timeout(limit.unwrap_or(Duration::MAX), requests).await;
                    }
                }
            }
        }));
    }

    pub(super) fn open(&self) -> Result<Option<MemoryStore>, Cause> {
        self.begin(Access::Read)?;
        let header = self.database.lock().header.clone();
        Ok(header.map(|header| MemoryStore {
            ledger: self.clone(),
            header,
            job: 0,
        }))
    }

    pub(super) fn open_to_send(
        &self,
        service: &str,
        keys: Option<&str>,
    ) -> Result<MemoryStore, Cause> {
        self.begin(Access::Open)?;
        let mut tables = self.database.lock();
        if tables.is_moved {
            return Err(Cause::Unreachable("it is being put back".to_owned()));
        }
        let header = tables.header.get_or_insert_with(|| Header {
            salt: Salt([0; 32]),
            service: service.to_owned(),
            keys: keys.map(str::to_owned),
        });
        let header = header.clone();
        tables.last_job += 1;
        let job = (i64::from(self.process.number()) << 32) | i64::from(tables.last_job);
        let until = tables.began.elapsed() + LEASE;
        tables.jobs.insert(job, until);
        Ok(MemoryStore {
            ledger: self.clone(),
            header,
            job,
        })
    }

    /// Returns the end of the transaction, unless the database cannot be used.
    fn begin(&self, access: Access) -> Result<TransactionEnd, Cause> {
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
    fn reading<T>(&self, work: impl FnOnce(&Tables) -> T) -> Result<T, Cause> {
        self.ledger.begin(Access::Read)?;
        Ok(work(&self.ledger.database.lock()))
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        if !self.ledger.process.has_ended() {
            self.ledger.database.lock().jobs.remove(&self.job);
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
        self.reading(|tables| tables.rows.is_empty())
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause> {
        self.reading(|tables| keys.iter().map(|key| tables.row(key).0.pop()).collect())
    }

    fn read_emails(&mut self, emails: &[Digest]) -> Result<Vec<Vec<Record>>, Cause> {
        self.reading(|tables| {
            let rows = tables.rows.iter();
            let of_email = |email: &Digest| {
                let has_email = |record: &Record| record.request.email.as_ref() == Some(email);
                let rows = rows.clone().filter(|(_, row)| row.0.iter().any(has_email));
                rows.filter_map(|(key, _)| tables.row(key).0.pop())
                    .collect()
            };
            emails.iter().map(of_email).collect()
        })
    }

    fn for_each(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Cause> {
        self.reading(|tables| {
            let rows = tables.rows.keys();
            rows.filter_map(|key| tables.row(key).0.pop())
                .for_each(&mut *take);
        })
    }

    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause> {
        let has_claims = !touched.claims.is_empty();
        let transaction_end = self.ledger.begin(match has_claims {
            true => Access::Claim,
            false => Access::Record,
        })?;
        let mut tables = self.ledger.database.lock();
        tables.end_pending();
        let header = tables.header.clone().ok_or(Cause::Moved("deleted"))?;
        if tables.is_moved {
            return Err(Cause::Moved("replaced"));
        }
        if has_claims && !tables.is_alive(self.job) {
            tables.rejected.insert(self.job);
            return Err(Cause::LeaseLost);
        }
        let stored: Rows = touched
            .keys
            .iter()
            .map(|key| (*key, tables.row(key)))
            .collect();
        let mut rows = stored.clone();
        let agents = touched.agents.iter();
        let mut owners: AgentOwners = agents
            .map(|agent| (agent.clone(), tables.owners(agent)))
            .collect();
        if !work(&header, &mut rows, &mut owners)? {
            return Ok(());
        }
        let entries = changed(&stored, &rows);
        let entries = entries.map(|entry| (entry.key, entry.entry, entry.new.cloned()));
        let entries: Vec<_> = entries.collect();
        let is_misplaced = has_claims && header != self.header;
        tables.misplaced_claims += usize::from(is_misplaced);
        if let TransactionEnd::Unanswered { commits } = transaction_end {
            if commits {
                tables.pending = entries;
            }
            return Err(Cause::Unreachable("the connection broke".to_owned()));
        }
        tables.put(entries);
        Ok(())
    }

    fn renew(&mut self) -> Result<bool, Cause> {
        let transaction_end = self.ledger.begin(Access::Renew)?;
        let mut tables = self.ledger.database.lock();
        let is_alive = tables.is_alive(self.job);
        if is_alive && transaction_end != (TransactionEnd::Unanswered { commits: false }) {
            let until = tables.began.elapsed() + LEASE;
            tables.jobs.insert(self.job, until);
        }
        match transaction_end {
            TransactionEnd::Unanswered { .. } => {
                Err(Cause::Unreachable("the connection broke".to_owned()))
            }
            _ => {
                if !is_alive {
                    tables.rejected.insert(self.job);
                }
                Ok(is_alive)
            }
        }
    }

    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause> {
        let mut tables = self.ledger.database.lock();
        let current = tables.header.clone().ok_or(Cause::Moved("deleted"))?;
        let new = work(&current, tables.rows.is_empty())?.unwrap_or(current);
        tables.header = Some(new.clone());
        self.header = new;
        Ok(())
    }
}
