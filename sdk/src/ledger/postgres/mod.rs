//! A ledger in a PostgreSQL database, as specified in `sdk/contract/ledger.md`.
//!
//! Rows are locked one by one, so that jobs do not wait for each other's batches. A transaction locks in the order of the
//! keys, so that none waits in a circle, and has two round trips: one that claims what is new and locks the rest, and one
//! that writes and commits. Isolation is READ COMMITTED, where each statement sees what was committed before it: a row
//! that was locked is read as it is then.

mod database;
mod rows;
mod session;
mod tables;

use std::{
    error::Error as _,
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

use tokio_postgres::{Client, error::SqlState, types::Type};

pub(in crate::ledger) use self::database::Database;
use self::{
    rows::LOCK_HEADER,
    session::{LIMIT, Session, begin, execute, in_transaction, query, query_one},
    tables::{find, make},
};
use super::{
    cancellation::CancellationFlag,
    error::Cause,
    key_hash::{Digest, KeyHash},
    lease::{LEASE, Liveness, RENEWED_EVERY},
    state::{Record, Row},
    store::{Changes, Header, HeaderChange, Store, Touched},
};

pub(super) struct Postgres {
    session: Session,
    header: Header,
    /// The number of the job, if it is one.
    job: Option<i64>,
}

/// Makes the tables, so that jobs need no permission to do so.
pub(super) fn init(database: &Arc<Database>) -> Result<(), Cause> {
    let make = async |client: &Client, database: &Database| make(client, database, None).await;
    Session::new(database, &CancellationFlag::default())?.run(LIMIT, make)
}

impl Postgres {
    /// Opens the ledger of a job, or creates one, for this service and this name of the keys, if they have one.
    pub(super) fn open_to_send(
        database: &Arc<Database>,
        service: &str,
        keys: Option<&str>,
        cancellation: &CancellationFlag,
    ) -> Result<Self, Cause> {
        let mut session = Session::new(database, cancellation)?;
        let job = getrandom::u64().map_err(io::Error::other)?.cast_signed();
        let header = find_in(&mut session)?;
        let new = Header::new(service, keys)?;
        let header = session.run(LIMIT, async |client, database| {
            if header.is_none() {
                make(client, database, Some(&new)).await?;
            }
            let sql = format!(
                "{}; DELETE FROM jobs WHERE lease_until < clock_timestamp();
                INSERT INTO jobs VALUES ({job}, {}); COMMIT",
                begin(database),
                lease_until(),
            );
            execute(client, &sql).await?;
            Ok(header)
        })?;
        // Another job may have been faster.
        let header = header.map_or_else(|| find_in(&mut session), |header| Ok(Some(header)))?;
        Ok(Self {
            session,
            header: header.ok_or(Cause::Moved("deleted"))?,
            job: Some(job),
        })
    }

    /// Opens an existing ledger; `None` if there is none.
    pub(super) fn open(database: &Arc<Database>) -> Result<Option<Self>, Cause> {
        let mut session = Session::new(database, &CancellationFlag::default())?;
        let header = find_in(&mut session)?;
        Ok(header.map(|header| Self {
            session,
            header,
            job: None,
        }))
    }
}

fn find_in(session: &mut Session) -> Result<Option<Header>, Cause> {
    let schema = session.database.schema.clone();
    session.read(LIMIT, async |client| find(client, &schema).await)
}

/// The end of a lease that begins now.
fn lease_until() -> String {
    format!(
        "clock_timestamp() + {} * interval '1 second'",
        LEASE.as_secs()
    )
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Without this, others would take it for alive until its lease has run out.
        if let Some(job) = self.job.take()
            && self.session.is_connected()
        {
            let end = async |client: &Client, database: &Database| {
                let begin = begin(database);
                let sql = format!("{begin}; DELETE FROM jobs WHERE number = {job}; COMMIT");
                execute(client, &sql).await
            };
            let _ = self.session.run_to_completion(RENEWED_EVERY, end);
        }
    }
}

impl Store for Postgres {
    fn header(&self) -> &Header {
        &self.header
    }

    fn job(&self) -> i64 {
        self.job.unwrap_or(0)
    }

    fn liveness(&self) -> Liveness {
        Liveness::Lease
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        self.session.read(LIMIT, async |client| {
            let sql = "SELECT EXISTS (SELECT FROM creates)";
            Ok(query_one(client, sql, &[]).await? != Some(true))
        })
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause> {
        self.session.read(LIMIT, async |client| {
            let found = rows::read(client, keys).await?;
            let current = |key| found.get(key).and_then(Row::current).cloned();
            Ok(keys.iter().map(current).collect())
        })
    }

    fn read_emails(&mut self, emails: &[Digest]) -> Result<Vec<Vec<Record>>, Cause> {
        self.session.read(LIMIT, async |client| {
            rows::read_emails(client, emails).await
        })
    }

    fn for_each(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Cause> {
        self.session.read(Duration::MAX, async |client| {
            rows::for_each(client, take).await
        })
    }

    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause> {
        let (job, salt) = (self.job(), self.header.salt);
        let change = async |client: &Client, database: &Database| {
            let begin = begin(database);
            loop {
                let locked = rows::lock(client, &begin, touched, job, salt).await?;
                if let Some(mut locked) = locked {
                    if work(&locked.header, &mut locked.rows, &mut locked.owners)? {
                        return rows::save(client, locked).await;
                    }
                    return execute(client, "ROLLBACK").await;
                }
                execute(client, "ROLLBACK").await?;
            }
        };
        match touched.are_claims() {
            true => self.session.run(LIMIT, change),
            false => self.session.run_to_completion(LIMIT, change),
        }
    }

    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause> {
        let header = self.session.run(LIMIT, async |client, database| {
            in_transaction(client, &begin(database), async {
                query(client, LOCK_HEADER, &[]).await?;
                let schema = &database.schema;
                let current = find(client, schema).await?.ok_or(Cause::Moved("deleted"))?;
                let sql = "SELECT EXISTS (SELECT FROM creates)";
                let is_empty = query_one(client, sql, &[]).await? != Some(true);
                let Some(new) = work(&current, is_empty)? else {
                    return Ok(current);
                };
                let sql = "UPDATE ledger SET service = $1, keys = $2, header_check = $3";
                let check = new.check();
                let check = &check[..];
                let parameters = [
                    (&new.service as _, Type::TEXT),
                    (&new.keys as _, Type::TEXT),
                    (&check as _, Type::BYTEA),
                ];
                query(client, sql, &parameters).await?;
                Ok(new)
            })
            .await
        })?;
        self.header = header;
        Ok(())
    }

    fn renew(&mut self) -> Result<bool, Cause> {
        let Some(job) = self.job else {
            return Ok(true);
        };
        let sql = format!(
            "UPDATE jobs SET lease_until = {} WHERE number = $1 AND lease_until > clock_timestamp() RETURNING number",
            lease_until()
        );
        let renewed = self.session.run(RENEWED_EVERY, async |client, database| {
            let parameters = [(&job as _, Type::INT8)];
            let renewed = query(client, &sql, &parameters);
            in_transaction(client, &begin(database), renewed).await
        })?;
        Ok(!renewed.is_empty())
    }
}

/// A text of the server without the names of users.
fn without_names(text: &str) -> String {
    let mut parts = text.split('"');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    let mut is_quoted = true;
    for part in parts {
        let is_user = is_quoted && (shown.ends_with("user ") || shown.ends_with("role "));
        shown.push('"');
        shown.push_str(if is_user { "…" } else { part });
        is_quoted = !is_quoted;
    }
    shown
}

impl From<tokio_postgres::Error> for Cause {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            let reason = error.source().map(|source| format!(": {source}"));
            let why = format!("{error}{}", reason.unwrap_or_default());
            return Cause::Unreachable(why);
        };
        let text = without_names(said.message());
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
            &SqlState::UNDEFINED_TABLE => Cause::Moved("deleted"),
            _ => Cause::Broken(text),
        }
    }
}
