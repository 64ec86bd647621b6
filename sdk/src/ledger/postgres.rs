//! Ledgers in a PostgreSQL database, as specified in `sdk/contract/ledger.md`.
//!
//! Rows are locked one by one, so that jobs do not wait for each other's batches. A transaction locks in the order of the
//! keys, so that none waits in a circle, and has two round trips: one that claims what is new and locks the rest, and one
//! that writes and commits. Isolation is READ COMMITTED, where each statement sees what was committed before it: a row
//! that was locked is read as it is then.

use std::{
    collections::{BTreeMap, HashSet},
    error::Error as _,
    io::{self, ErrorKind},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    StreamExt as _,
    future::{try_join, try_join5},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{
    Client, Row as Columns,
    error::SqlState,
    types::{FromSql, ToSql, Type},
};

use super::{
    database::Database,
    error::{Cause, LedgerError, Purpose},
    key_hash::KeyHash,
    lease::Lease,
    state::{Job, Record, Row, State, WhenInDoubt},
    store::{Changes, Copied, Header, Store, Table, Touched},
};
use crate::http::base_url;

const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE version (version bigint NOT NULL);
CREATE TABLE ledgers (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    salt bytea NOT NULL,
    salt_check bytea NOT NULL,
    service text NOT NULL,
    keys text
);
CREATE UNIQUE INDEX ledger_of_service ON ledgers (service, coalesce(keys, ''));
CREATE TABLE jobs (
    number bigint PRIMARY KEY,
    ledger bigint NOT NULL,
    lease_until timestamptz NOT NULL
);
CREATE TABLE creates (
    ledger bigint NOT NULL,
    key bytea NOT NULL,
    state text NOT NULL,
    agent_id text,
    status integer,
    request_id text,
    job bigint,
    claimed_at bigint NOT NULL,
    noted_at bigint NOT NULL,
    PRIMARY KEY (ledger, key)
);
CREATE TABLE history (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    LIKE creates
);
CREATE INDEX history_of_key ON history (ledger, key, number);
INSERT INTO version VALUES (1);
";

/// Makes the transactions wait for each other that make tables and ledgers.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7234297, 1)";

const LEDGERS: &str = "SELECT number, salt, salt_check, service, keys,
    NOT EXISTS (SELECT FROM creates WHERE ledger = ledgers.number) FROM ledgers ORDER BY number";

/// The columns of a [`Record`], in both tables.
const RECORD: &str = "state, agent_id, status, request_id, job, claimed_at, noted_at";

const CHECK: &str = "SELECT salt,
    EXISTS (SELECT FROM jobs WHERE number = $2 AND lease_until > clock_timestamp())
    FROM ledgers WHERE number = $1";

const CLAIM: &str = "INSERT INTO creates (ledger, key, state, job, claimed_at, noted_at)
    SELECT $1, key, 'sending', $3, $4, $4 FROM unnest($2) AS key ORDER BY key
    ON CONFLICT DO NOTHING RETURNING key";

const ALIVE: &str = "SELECT number FROM jobs WHERE ledger = $1 AND lease_until > clock_timestamp()";

/// How long others take a job for alive after it was last heard from.
const RENEW: &str = "UPDATE jobs SET lease_until = clock_timestamp() + $2 * interval '1 second'
    WHERE number = $1 AND lease_until > clock_timestamp() RETURNING number";

const FIND: [&str; 2] = [
    "SELECT state, agent_id, status, request_id, job, claimed_at, noted_at, key FROM creates
        WHERE ledger = $1 AND key = ANY($2)",
    "SELECT state, agent_id, status, request_id, job, claimed_at, noted_at, key, number FROM history
        WHERE ledger = $1 AND key = ANY($2) ORDER BY number",
];

const FORGET: &str = "DELETE FROM history WHERE number = ANY($1)";

const REMOVE: &str = "DELETE FROM creates WHERE ledger = $1 AND key = ANY($2)";

const REPLACE: &str = "ON CONFLICT (ledger, key) DO UPDATE SET state = excluded.state,
    agent_id = excluded.agent_id, status = excluded.status, request_id = excluded.request_id,
    job = excluded.job, claimed_at = excluded.claimed_at, noted_at = excluded.noted_at";

/// How long opening and reading may take, and renewing.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(10);

/// How many rows are copied together.
const AT_ONCE: usize = 5000;

/// How often a transaction is begun again whose rows have vanished.
const TRIES: usize = 10;

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Rows that are locked, and as they are in the database.
type Locked = (BTreeMap<KeyHash, Row>, BTreeMap<KeyHash, Record>);

/// An open ledger.
pub(super) struct Postgres {
    session: Session,
    purpose: Purpose,
    number: i64,
    header: Header,
    job: Option<(i64, Lease)>,
    /// Whether to wait for a database that was lost, so as to note what became of rows.
    is_patient: bool,
}

/// A connection, which is made when it is needed.
struct Session {
    runtime: Runtime,
    database: Arc<Database>,
    /// `None` after a failure: what was not committed on it is undone.
    connection: Option<(Client, JoinHandle<()>)>,
}

/// A ledger that a database has.
struct Found {
    number: i64,
    header: Header,
    is_empty: bool,
}

/// Makes the tables, and the ledger of this service and these keys, if they are given.
pub(super) fn init(
    database: &Arc<Database>,
    ledger: Option<(&str, Option<&str>)>,
) -> Result<(), LedgerError> {
    let made = Session::new(database).and_then(|mut session| {
        session.run(LONG, false, async |client, database| {
            make_tables(client, database).await?;
            if let Some((service, keys)) = ledger {
                make_ledger(client, database, service, keys, true).await?;
            }
            Ok(())
        })
    });
    made.map_err(|cause| LedgerError::new(database.place(), Purpose::Job, cause))
}

impl Postgres {
    /// Opens the ledger of a job, or creates one, for this service and this name of the keys, if they have one.
    pub(super) fn open_to_send(
        database: &Arc<Database>,
        purpose: Purpose,
        service: &str,
        keys: Option<&str>,
        lease: Lease,
    ) -> Result<Self, LedgerError> {
        let opened = || -> Result<Self, Cause> {
            let mut session = Session::new(database)?;
            let job = getrandom::u64().map_err(io::Error::other)?.cast_signed();
            let begun = Instant::now();
            let found = session.run(LONG, false, async |client, database| {
                let found = find(client, database, Some(service), keys).await?;
                let found = match found {
                    Some(found) => found,
                    None => {
                        make_tables(client, database).await?;
                        make_ledger(client, database, service, keys, false).await?
                    }
                };
                let seconds = database.lease.as_secs_f64();
                let sql = format!(
                    "{}; DELETE FROM jobs WHERE ledger = {ledger} AND lease_until < clock_timestamp();
                    INSERT INTO jobs VALUES ({job}, {ledger}, clock_timestamp() + {seconds} * interval '1 second'); COMMIT",
                    begin(database),
                    ledger = found.number,
                );
                client.batch_execute(&sql).await?;
                Ok(found)
            })?;
            lease.begin(database.may_send_until(begun));
            Ok(Self::new(session, purpose, found, Some((job, lease))))
        };
        opened().map_err(|cause| LedgerError::new(database.place(), purpose, cause))
    }

    /// Opens an existing ledger; `None` if there is none.
    pub(super) fn open(
        database: &Arc<Database>,
        service: Option<&str>,
        keys: Option<&str>,
        purpose: Purpose,
    ) -> Result<Option<Self>, LedgerError> {
        let opened = || -> Result<_, Cause> {
            let mut session = Session::new(database)?;
            let found = session.run(LONG, false, async |client, database| {
                find(client, database, service, keys).await
            })?;
            Ok(found.map(|found| Self::new(session, purpose, found, None)))
        };
        opened().map_err(|cause| LedgerError::new(database.place(), purpose, cause))
    }

    fn new(session: Session, purpose: Purpose, found: Found, job: Option<(i64, Lease)>) -> Self {
        Self {
            session,
            purpose,
            number: found.number,
            header: found.header,
            // A client tries again when it is next called.
            is_patient: purpose == Purpose::Job,
            job,
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Without this, others would take it for alive until its lease has run out.
        let job = self.job.as_ref().map(|(job, _)| *job);
        if let Some(job) = job.filter(|_| self.session.is_connected()) {
            let _ = self.session.run(SHORT, false, async |client, database| {
                let sql = format!(
                    "{}; DELETE FROM jobs WHERE number = {job}; COMMIT",
                    begin(database)
                );
                Ok(client.batch_execute(&sql).await?)
            });
        }
    }
}

impl Session {
    fn new(database: &Arc<Database>) -> Result<Self, Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            runtime,
            database: Arc::clone(database),
            connection: None,
        })
    }

    fn is_connected(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|(client, _)| !client.is_closed())
    }

    /// Does something within this time, once there is a connection.
    fn run<T>(
        &mut self,
        limit: Duration,
        is_patient: bool,
        work: impl AsyncFnOnce(&Client, &Database) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let is_connected = self.is_connected();
        let Self {
            runtime,
            database,
            connection: slot,
        } = self;
        let connection = slot.take().filter(|_| is_connected);
        let (value, connection) = runtime.block_on(async {
            let (client, task) = match connection {
                Some(connection) => connection,
                None => connect(database, is_patient).await?,
            };
            let done = timeout(limit, work(&client, database)).await;
            match done.unwrap_or_else(|_| Err(Cause::unanswered(limit))) {
                Ok(value) => Ok((value, (client, task))),
                Err(cause) => {
                    // At once, so that the server undoes what was begun and nobody waits for its locks.
                    task.abort();
                    let _ = task.await;
                    Err(cause)
                }
            }
        })?;
        *slot = Some(connection);
        Ok(value)
    }
}

/// Connects; if it is patient, to a database that is being restarted, or that another takes the place of.
async fn connect(database: &Database, is_patient: bool) -> Result<(Client, JoinHandle<()>), Cause> {
    let begun = Instant::now();
    loop {
        let connected = timeout(database.patience, database.connect()).await;
        let connected = connected.unwrap_or_else(|_| Err(Cause::unanswered(database.patience)));
        let goes_on = is_patient && begun.elapsed() < database.patience;
        match connected {
            Err(Cause::Unreachable(_)) if goes_on => sleep(Duration::from_millis(100)).await,
            connected => return connected,
        }
    }
}

/// What a transaction that writes begins with. Nothing depends on the session, which a pooler may share among clients.
fn begin(database: &Database) -> String {
    let (schema, patience) = (&database.schema, database.patience.as_millis());
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path TO {schema};
        SET LOCAL synchronous_commit TO on; SET LOCAL statement_timeout TO {patience};
        SET LOCAL idle_in_transaction_session_timeout TO {patience}"
    )
}

/// What a transaction begins with that sees everything as it is at one moment.
fn begin_reading(database: &Database) -> String {
    let schema = &database.schema;
    format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path TO {schema}")
}

/// Sends the beginning and what follows together, and then the end.
async fn in_transaction<T>(
    client: &Client,
    begin: &str,
    work: impl Future<Output = Result<T, Cause>>,
) -> Result<T, Cause> {
    let (_, value) = try_join(execute(client, begin), work).await?;
    execute(client, "COMMIT").await?;
    Ok(value)
}

async fn execute(client: &Client, sql: &str) -> Result<(), Cause> {
    Ok(client.batch_execute(sql).await?)
}

/// Queries are typed and not prepared: that takes one round trip, and the library logs no parameters of such.
async fn query(
    client: &Client,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Columns>, Cause> {
    Ok(client.query_typed(sql, parameters).await?)
}

/// The ledger of this service and these keys, if the tables and the ledger are there.
async fn find(
    client: &Client,
    database: &Database,
    service: Option<&str>,
    keys: Option<&str>,
) -> Result<Option<Found>, Cause> {
    if !has_tables(client, database).await? {
        return Ok(None);
    }
    let found = in_transaction(client, &begin_reading(database), ledgers(client)).await?;
    choose(found, service, keys)
}

async fn has_tables(client: &Client, database: &Database) -> Result<bool, Cause> {
    let sql = format!("SELECT version FROM {}.version", database.schema);
    let found = match client.query_typed(&sql, &[]).await {
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => return Ok(false),
        found => found?,
    };
    match found.first().map(|row| get(row, 0)).transpose()? {
        Some(VERSION) => Ok(true),
        Some(version) => Err(Cause::NewerFormat(version)),
        None => Err(Cause::Broken("its version is missing".to_owned())),
    }
}

async fn make_tables(client: &Client, database: &Database) -> Result<(), Cause> {
    let schema = &database.schema;
    execute(client, &format!("{}; {LOCK}", begin(database))).await?;
    if !has_tables_yet(client, database).await? {
        let sql = format!("SELECT to_regnamespace('{schema}') IS NULL");
        let rows = query(client, &sql, &[]).await?;
        if rows.first().map_or(Ok(false), |row| get(row, 0))? {
            execute(client, &format!("CREATE SCHEMA {schema}")).await?;
        }
        execute(client, TABLES).await?;
    }
    execute(client, "COMMIT").await
}

/// In a transaction, which a table that is missing must not end.
async fn has_tables_yet(client: &Client, database: &Database) -> Result<bool, Cause> {
    let sql = format!(
        "SELECT to_regclass('{}.version') IS NOT NULL",
        database.schema
    );
    let rows = query(client, &sql, &[]).await?;
    let is_there = rows.first().map_or(Ok(false), |row| get(row, 0))?;
    if is_there {
        has_tables(client, database).await
    } else {
        Ok(false)
    }
}

/// Makes a ledger, unless there is one. Unless somebody wants it, it is made only where no other has any rows.
async fn make_ledger(
    client: &Client,
    database: &Database,
    service: &str,
    keys: Option<&str>,
    is_wanted: bool,
) -> Result<Found, Cause> {
    let begin = format!("{}; {LOCK}", begin(database));
    let header = Header::new(service, keys)?;
    in_transaction(client, &begin, async {
        let found = ledgers(client).await?;
        // A service whose address is new here may be one that has a ledger, and its agents would be created again.
        let other = found.iter().find(|found| !found.is_empty);
        let theirs = other.map(|found| found.header.service.clone());
        let is_it = |found: &Found| found.header.keys.as_deref() == keys || !is_wanted;
        if let Some(found) = choose(found, Some(service), keys)?.filter(is_it) {
            return Ok(found);
        }
        if let Some(theirs) = theirs.filter(|_| !is_wanted) {
            let ours = service.to_owned();
            return Err(Cause::OtherService { theirs, ours });
        }
        let number = insert_ledger(client, &header).await?;
        Ok(Found {
            number,
            header,
            is_empty: true,
        })
    })
    .await
}

async fn insert_ledger(client: &Client, header: &Header) -> Result<i64, Cause> {
    let sql = "INSERT INTO ledgers (salt, salt_check, service, keys) VALUES ($1, $2, $3, $4) RETURNING number";
    let check = header.check();
    let (salt, check) = (&header.salt[..], &check[..]);
    let parameters: [Parameter<'_>; 4] = [
        (&salt, Type::BYTEA),
        (&check, Type::BYTEA),
        (&header.service, Type::TEXT),
        (&header.keys, Type::TEXT),
    ];
    let made = query(client, sql, &parameters).await?;
    get(made.first().ok_or(Cause::Moved("deleted"))?, 0)
}

/// Makes a ledger with rows of another, which may take the place of one without rows.
pub(super) fn create_with(
    database: &Arc<Database>,
    header: &Header,
    rows: Copied,
) -> Result<(), LedgerError> {
    let made = Session::new(database).and_then(|mut session| {
        session.run(Duration::MAX, false, async |client, database| {
            make_tables(client, database).await?;
            let begin = format!("{}; {LOCK}", begin(database));
            in_transaction(client, &begin, async {
                let is_it = |found: &Found| {
                    (&found.header.service, &found.header.keys) == (&header.service, &header.keys)
                };
                let there = ledgers(client).await?;
                if let Some(there) = there.into_iter().find(is_it) {
                    if !there.is_empty {
                        return Err(Cause::AlreadyThere);
                    }
                    let parameters: [Parameter<'_>; 1] = [(&there.number, Type::INT8)];
                    query(client, "DELETE FROM ledgers WHERE number = $1", &parameters).await?;
                }
                let number = insert_ledger(client, header).await?;
                let mut rows = rows.into_iter().peekable();
                while rows.peek().is_some() {
                    let next: Option<Vec<_>> = rows.by_ref().take(AT_ONCE).collect();
                    let next = next.ok_or(Cause::Used)?;
                    for table in Table::ALL {
                        let mut batch = Batch::default();
                        for (of, key, record) in &next {
                            if of.name() == table.name() {
                                batch.push(key, record);
                            }
                        }
                        let sql = Batch::insert(table.name());
                        query_if(
                            client,
                            !batch.keys.is_empty(),
                            &sql,
                            &batch.parameters(&number),
                        )
                        .await?;
                    }
                }
                Ok(())
            })
            .await
        })
    });
    made.map_err(|cause| LedgerError::new(database.place(), Purpose::Note, cause))
}

async fn ledgers(client: &Client) -> Result<Vec<Found>, Cause> {
    let rows = query(client, LEDGERS, &[]).await?;
    let found = rows.iter().map(|row| {
        let header = Header::read(bytes(row, 1)?, bytes(row, 2)?, get(row, 3)?, get(row, 4)?)?;
        Ok(Found {
            number: get(row, 0)?,
            header,
            is_empty: get(row, 5)?,
        })
    });
    found.collect()
}

/// Which of the ledgers is meant. One whose keys have another name is chosen only if there is no better one, so that a job
/// is refused that would recognise nobody.
fn choose(
    mut found: Vec<Found>,
    service: Option<&str>,
    keys: Option<&str>,
) -> Result<Option<Found>, Cause> {
    found.retain(|found| {
        service.is_none_or(|service| base_url::is_same(&found.header.service, service))
    });
    let first = found.first().map(|found| found.header.service.clone());
    let is_one_service = found
        .iter()
        .all(|found| Some(&found.header.service) == first.as_ref());
    if found.len() > 1 && (keys.is_none() || !is_one_service) {
        let names = found.iter().map(|found| {
            let keys = found.header.keys.as_deref();
            format!(
                "{} by {}",
                found.header.service,
                keys.unwrap_or("keys without a name")
            )
        });
        return Err(Cause::Several(names.collect::<Vec<_>>().join(", ")));
    }
    Ok(found
        .into_iter()
        .min_by_key(|found| match &found.header.keys {
            Some(name) if Some(name.as_str()) == keys => 0,
            None => 1,
            _ if found.is_empty => 2,
            _ => 3,
        }))
}

impl Store for Postgres {
    fn header(&self) -> &Header {
        &self.header
    }

    fn job(&self) -> i64 {
        self.job.as_ref().map_or(0, |(job, _)| *job)
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.session.database.place(), self.purpose, cause)
    }

    fn verify(&mut self) -> Result<(), Cause> {
        // The database does that itself, and lets in only whom its owner does.
        Ok(())
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        let number = self.number;
        self.session.run(LONG, false, async |client, database| {
            let found = in_transaction(client, &begin_reading(database), ledgers(client)).await?;
            let mut found = found.into_iter().filter(|found| found.number == number);
            Ok(found.next().ok_or(Cause::Moved("deleted"))?.is_empty)
        })
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause> {
        let (number, list) = (self.number, slices(keys));
        self.session.run(LONG, false, async |client, database| {
            let parameters: [Parameter<'_>; 2] =
                [(&number, Type::INT8), (&list, Type::BYTEA_ARRAY)];
            let found = try_join(
                alive(client, &parameters[..1]),
                query(client, FIND[0], &parameters),
            );
            let (alive, found) = in_transaction(client, &begin_reading(database), found).await?;
            let found = found
                .iter()
                .map(|row| Ok((key(row)?, record(row, &alive)?)));
            let found = found.collect::<Result<BTreeMap<_, _>, Cause>>()?;
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        })
    }

    fn is_agent_of_another(&mut self, key: KeyHash, id: &str) -> Result<bool, Cause> {
        let (number, key) = (self.number, &key.0[..]);
        self.session.run(LONG, false, async |client, database| {
            let sql =
                "SELECT FROM creates WHERE ledger = $1 AND key <> $2 AND agent_id = $3 LIMIT 1";
            let parameters: [Parameter<'_>; 3] = [
                (&number, Type::INT8),
                (&key, Type::BYTEA),
                (&id, Type::TEXT),
            ];
            let others = query(client, sql, &parameters);
            Ok(!in_transaction(client, &begin_reading(database), others)
                .await?
                .is_empty())
        })
    }

    fn for_each(
        &mut self,
        table: Table,
        take: &mut dyn FnMut(KeyHash, Record),
    ) -> Result<(), Cause> {
        let number = self.number;
        let (name, order) = match table {
            Table::Creates => (table.name(), ""),
            Table::History => (table.name(), "ORDER BY number"),
        };
        let sql = format!("SELECT {RECORD}, key FROM {name} WHERE ledger = $1 {order}");
        self.session
            .run(Duration::MAX, false, async |client, database| {
                let reading = async {
                    let ledger: [Parameter<'_>; 1] = [(&number, Type::INT8)];
                    let alive = alive(client, &ledger).await?;
                    let rows = client.query_typed_raw(&sql, [(number, Type::INT8)]);
                    let mut rows = pin!(rows.await?);
                    while let Some(row) = rows.next().await {
                        let row = row?;
                        take(key(&row)?, record(&row, &alive)?);
                    }
                    Ok(())
                };
                in_transaction(client, &begin_reading(database), reading).await
            })
    }

    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause> {
        let (number, job, salt) = (self.number, self.job(), self.header.salt);
        // A claim that was not answered is not sent, but what became of a row may still be noted.
        let is_patient = self.is_patient && touched.claims.is_empty();
        let limit = self.session.database.patience * 2;
        let changed = self
            .session
            .run(limit, is_patient, async |client, database| {
                for _ in 0..TRIES {
                    let locked = lock(client, database, touched, number, job, &salt).await?;
                    if let Some((mut rows, stored)) = locked {
                        return if work(&mut rows)? {
                            save(client, number, rows, stored).await
                        } else {
                            execute(client, "ROLLBACK").await
                        };
                    }
                    execute(client, "ROLLBACK").await?;
                }
                Err(Cause::InUse)
            });
        if is_patient && changed.is_err() {
            self.is_patient = false;
        }
        changed
    }

    fn rename(&mut self, service: &str, keys: Option<&str>) -> Result<(), Cause> {
        let number = self.number;
        self.session.run(LONG, false, async |client, database| {
            let sql = "UPDATE ledgers SET service = $2, keys = $3 WHERE number = $1";
            let parameters: [Parameter<'_>; 3] = [
                (&number, Type::INT8),
                (&service, Type::TEXT),
                (&keys, Type::TEXT),
            ];
            in_transaction(client, &begin(database), query(client, sql, &parameters)).await
        })?;
        self.header.service = service.to_owned();
        self.header.keys = keys.map(str::to_owned);
        Ok(())
    }

    fn renewed_every(&self) -> Option<Duration> {
        Some(self.session.database.lease / 6)
    }

    fn renew(&mut self) -> Result<(), Cause> {
        let Some((job, lease)) = self.job.clone() else {
            return Ok(());
        };
        let begun = Instant::now();
        let seconds = self.session.database.lease.as_secs_f64();
        let renewed = self.session.run(SHORT, false, async |client, database| {
            let parameters: [Parameter<'_>; 2] = [(&job, Type::INT8), (&seconds, Type::FLOAT8)];
            in_transaction(client, &begin(database), query(client, RENEW, &parameters)).await
        })?;
        if renewed.is_empty() {
            return Err(Cause::LeaseLost);
        }
        lease.renew(self.session.database.may_send_until(begun));
        Ok(())
    }
}

/// Begins a transaction, claims the rows of which nothing is known, and locks and reads all. `None` if a row has vanished
/// meanwhile, because its claim was withdrawn.
async fn lock(
    client: &Client,
    database: &Database,
    touched: &Touched,
    number: i64,
    job: i64,
    salt: &[u8],
) -> Result<Option<Locked>, Cause> {
    let keys: Vec<_> = touched.keys.iter().copied().collect();
    let claims: Vec<_> = touched.claims.iter().copied().collect();
    let (keys, claims) = (slices(&keys), slices(&claims));
    let all: [Parameter<'_>; 2] = [(&number, Type::INT8), (&keys, Type::BYTEA_ARRAY)];
    let claim: [Parameter<'_>; 4] = [
        (&number, Type::INT8),
        (&claims, Type::BYTEA_ARRAY),
        (&job, Type::INT8),
        (&touched.now, Type::INT8),
    ];
    let check: [Parameter<'_>; 2] = [(&number, Type::INT8), (&job, Type::INT8)];
    let locking = format!("{} ORDER BY key FOR UPDATE", FIND[0]);
    // The jobs are read after the rows are locked: one that has claimed a row meanwhile is then seen alive.
    let (_, checked, claimed, found, (alive, history)) = try_join5(
        execute(client, &begin(database)),
        query(client, CHECK, &check),
        query(client, CLAIM, &claim),
        query(client, &locking, &all),
        try_join(alive(client, &all[..1]), query(client, FIND[1], &all)),
    )
    .await?;
    let checked = checked.first().ok_or(Cause::Moved("deleted"))?;
    if get::<&[u8]>(checked, 0)? != salt {
        return Err(Cause::Moved("replaced"));
    }
    if !claims.is_empty() && !get::<bool>(checked, 1)? {
        return Err(Cause::LeaseLost);
    }
    let stored = found
        .iter()
        .map(|row| Ok((key(row)?, record(row, &alive)?)));
    let mut stored = stored.collect::<Result<BTreeMap<_, _>, Cause>>()?;
    if touched.claims.iter().any(|key| !stored.contains_key(key)) {
        return Ok(None);
    }
    let mut rows: BTreeMap<_, _> = touched
        .keys
        .iter()
        .map(|key| (*key, Row::default()))
        .collect();
    for row in &history {
        let before = (Some(get(row, 8)?), record(row, &alive)?);
        rows.entry(key(row)?).or_default().history.push(before);
    }
    for (key, stored) in &stored {
        rows.entry(*key).or_default().current = Some(stored.clone());
    }
    for row in &claimed {
        let key = KeyHash(bytes(row, 0)?);
        rows.entry(key).or_default().current = None;
        stored.insert(
            key,
            Record::claimed(None, WhenInDoubt::Report, job, touched.now),
        );
    }
    Ok(Some((rows, stored)))
}

/// Writes what has changed, and commits, in one round trip.
async fn save(
    client: &Client,
    number: i64,
    rows: BTreeMap<KeyHash, Row>,
    stored: BTreeMap<KeyHash, Record>,
) -> Result<(), Cause> {
    let (mut put, mut past) = (Batch::default(), Batch::default());
    let (mut gone, mut forgotten) = (Vec::new(), Vec::new());
    for (key, row) in &rows {
        for (_, record) in row.history.iter().filter(|(number, _)| number.is_none()) {
            past.push(key, record);
        }
        forgotten.extend(row.forgotten.iter().map(|(number, _)| *number));
        match &row.current {
            current if current.as_ref() == stored.get(key) => {}
            Some(current) => put.push(key, current),
            None => gone.push(&key.0[..]),
        }
    }
    let forget: [Parameter<'_>; 1] = [(&forgotten, Type::INT8_ARRAY)];
    let remove: [Parameter<'_>; 2] = [(&number, Type::INT8), (&gone, Type::BYTEA_ARRAY)];
    try_join5(
        query_if(client, !forgotten.is_empty(), FORGET, &forget),
        query_if(
            client,
            !past.keys.is_empty(),
            &Batch::insert("history"),
            &past.parameters(&number),
        ),
        query_if(
            client,
            !put.keys.is_empty(),
            &format!("{} {REPLACE}", Batch::insert("creates")),
            &put.parameters(&number),
        ),
        query_if(client, !gone.is_empty(), REMOVE, &remove),
        execute(client, "COMMIT"),
    )
    .await?;
    Ok(())
}

async fn query_if(
    client: &Client,
    is_needed: bool,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<(), Cause> {
    if is_needed {
        query(client, sql, parameters).await?;
    }
    Ok(())
}

/// Rows that are written together, column by column.
#[derive(Default)]
struct Batch<'a> {
    keys: Vec<&'a [u8]>,
    states: Vec<&'static str>,
    agents: Vec<Option<&'a str>>,
    statuses: Vec<Option<i32>>,
    requests: Vec<Option<&'a str>>,
    jobs: Vec<Option<i64>>,
    claimed: Vec<i64>,
    noted: Vec<i64>,
}

impl<'a> Batch<'a> {
    fn push(&mut self, key: &'a KeyHash, record: &'a Record) {
        self.keys.push(&key.0);
        self.states.push(record.state.as_str());
        // The database has no text with a zero. That there is an agent is what counts.
        let is_known = record.state == State::Succeeded;
        let agent_id = record.agent_id.as_deref();
        self.agents
            .push(agent_id.filter(|id| !is_known || !id.contains('\0')));
        self.statuses.push(record.status.map(i32::from));
        self.requests.push(record.request_id.as_deref());
        self.jobs.push(record.job.map(|job| job.number));
        self.claimed.push(record.claimed_at);
        self.noted.push(record.noted_at);
    }

    fn insert(table: &str) -> String {
        format!(
            "INSERT INTO {table} (ledger, key, {RECORD})
            SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9)"
        )
    }

    fn parameters<'b>(&'b self, ledger: &'b i64) -> [Parameter<'b>; 9] {
        [
            (ledger, Type::INT8),
            (&self.keys, Type::BYTEA_ARRAY),
            (&self.states, Type::TEXT_ARRAY),
            (&self.agents, Type::TEXT_ARRAY),
            (&self.statuses, Type::INT4_ARRAY),
            (&self.requests, Type::TEXT_ARRAY),
            (&self.jobs, Type::INT8_ARRAY),
            (&self.claimed, Type::INT8_ARRAY),
            (&self.noted, Type::INT8_ARRAY),
        ]
    }
}

/// The jobs that live, by the database's clock.
async fn alive(client: &Client, ledger: &[Parameter<'_>]) -> Result<HashSet<i64>, Cause> {
    let rows = query(client, ALIVE, ledger).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Reads the columns of [`RECORD`].
fn record(row: &Columns, alive: &HashSet<i64>) -> Result<Record, Cause> {
    let state = State::of_word(get(row, 0)?);
    let status: Option<i32> = get(row, 2)?;
    let job = |number| Job {
        number,
        is_alive: alive.contains(&number),
    };
    Ok(Record {
        state: state.ok_or_else(|| Cause::Broken("a row has no known state".to_owned()))?,
        agent_id: get(row, 1)?,
        status: status.and_then(|status| status.try_into().ok()),
        request_id: get(row, 3)?,
        job: get::<Option<i64>>(row, 4)?.map(job),
        claimed_at: get(row, 5)?,
        noted_at: get(row, 6)?,
    })
}

/// The key that follows the columns of [`RECORD`].
fn key(row: &Columns) -> Result<KeyHash, Cause> {
    Ok(KeyHash(bytes(row, 7)?))
}

fn bytes<const N: usize>(row: &Columns, column: usize) -> Result<[u8; N], Cause> {
    let bytes = get::<&[u8]>(row, column)?.try_into();
    bytes.map_err(|_| Cause::Broken("a value has another length".to_owned()))
}

/// A column; if it has another type, somebody has changed the tables.
fn get<'a, T: FromSql<'a>>(row: &'a Columns, column: usize) -> Result<T, Cause> {
    row.try_get(column)
        .map_err(|error| Cause::Broken(error.to_string()))
}

fn slices(keys: &[KeyHash]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key.0[..]).collect()
}

impl From<tokio_postgres::Error> for Cause {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            let reason = error.source().map(|source| format!(": {source}"));
            let why = format!("{error}{}", reason.unwrap_or_default());
            return Cause::Unreachable(why);
        };
        let text = said.message().to_owned();
        match said.code() {
            code if code.code().starts_with("08") => Cause::Unreachable(text),
            &SqlState::ADMIN_SHUTDOWN
            | &SqlState::CRASH_SHUTDOWN
            | &SqlState::CANNOT_CONNECT_NOW
            | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            | &SqlState::TOO_MANY_CONNECTIONS => Cause::Unreachable(text),
            &SqlState::INSUFFICIENT_PRIVILEGE
            | &SqlState::INVALID_PASSWORD
            | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | &SqlState::INVALID_CATALOG_NAME
            | &SqlState::READ_ONLY_SQL_TRANSACTION => Cause::Denied(text),
            &SqlState::LOCK_NOT_AVAILABLE
            | &SqlState::QUERY_CANCELED
            | &SqlState::T_R_DEADLOCK_DETECTED => Cause::InUse,
            &SqlState::DISK_FULL => Cause::Io(io::Error::new(ErrorKind::StorageFull, text)),
            &SqlState::DUPLICATE_TABLE => Cause::NotALedger("its schema has other tables"),
            &SqlState::UNIQUE_VIOLATION => Cause::AlreadyThere,
            &SqlState::UNDEFINED_TABLE => Cause::Moved("deleted"),
            _ => Cause::Broken(text),
        }
    }
}
