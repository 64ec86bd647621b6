//! Ledgers in PostgreSQL databases, as specified in `sdk/contract/ledger.md`.
//!
//! A transaction locks single rows, so that jobs with different rows do not wait for each other. It locks the rows in the order
//! of their keys, so that transactions cannot deadlock. A transaction takes two round trips: the first claims new rows and
//! locks the existing ones, the second writes and commits. The isolation level is READ COMMITTED, where each statement sees
//! everything that was committed before it began: a row is read in the state that it has once it is locked.

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
    session::{
        Session, TRANSACTION_LIMIT, begin_statements, execute, in_transaction, query, query_one,
    },
    tables::{create_tables, read_header},
};
use super::{
    cancellation::CancellationFlag,
    error::Cause,
    key_hash::{KeyHash, ValueHash},
    lease::{LEASE, Liveness, RENEWAL_INTERVAL},
    lost_ledgers::{OpenMark, was_opened},
    row::{Row, RowEntry},
    store::{Header, HeaderChange, RowsChange, Store, TransactionScope},
};

pub(super) struct Postgres {
    session: Session,
    header: Header,
    /// The number of the job, if a job has opened the ledger.
    job: Option<i64>,
    /// The mark of the ledger, if a job has opened it.
    open_mark: Option<OpenMark>,
}

/// Creates the tables, so that jobs need no permission to create them.
pub(super) fn init(database: &Arc<Database>) -> Result<(), Cause> {
    let create =
        async |client: &Client, database: &Database| create_tables(client, database, None).await;
    Session::new(database, &CancellationFlag::default())?.run(TRANSACTION_LIMIT, create)
}

impl Postgres {
    /// Opens the ledger of a job, or creates it for this service and this name of the keys.
    pub(super) fn open_to_send(
        database: &Arc<Database>,
        service: &str,
        key_name: Option<&str>,
        cancellation: &CancellationFlag,
    ) -> Result<Self, Cause> {
        let mut session = Session::new(database, cancellation)?;
        let job = getrandom::u64().map_err(io::Error::other)?.cast_signed();
        let header = load_header(&mut session)?;
        let new_header = Header::new(service, key_name)?;
        let header = session.run(TRANSACTION_LIMIT, async |client, database| {
            if header.is_none() {
                create_tables(client, database, Some(&new_header)).await?;
            }
            let sql = format!(
                "{}; DELETE FROM jobs WHERE lease_until < clock_timestamp();
                INSERT INTO jobs VALUES ({job}, {}); COMMIT",
                begin_statements(database),
                lease_end_sql(),
            );
            execute(client, &sql).await?;
            Ok(header)
        })?;
        // If another job has created the ledger at the same time, the ledger has the header of that job: read it.
        let header = header.map_or_else(|| load_header(&mut session), |header| Ok(Some(header)))?;
        Ok(Self {
            session,
            header: header.ok_or(Cause::Moved("deleted"))?,
            job: Some(job),
            open_mark: Some(OpenMark::new(database.location())),
        })
    }

    /// Opens an existing ledger; `None` if it does not exist yet.
    pub(super) fn open(database: &Arc<Database>) -> Result<Option<Self>, Cause> {
        let mut session = Session::new(database, &CancellationFlag::default())?;
        let header = load_header(&mut session)?;
        Ok(header.map(|header| Self {
            session,
            header,
            job: None,
            open_mark: None,
        }))
    }
}

/// Reads the header of the ledger; `None` if the ledger does not exist yet. Fails if this process has opened the ledger and it
/// was deleted.
fn load_header(session: &mut Session) -> Result<Option<Header>, Cause> {
    let was_opened = was_opened(&session.database.location());
    let schema = session.database.schema.clone();
    let header = session.read(TRANSACTION_LIMIT, async |client| {
        read_header(client, &schema).await
    })?;
    if header.is_none() && was_opened {
        return Err(Cause::Moved("deleted"));
    }
    Ok(header)
}

/// Returns the SQL expression for the end of a lease that begins now.
fn lease_end_sql() -> String {
    format!(
        "clock_timestamp() + {} * interval '1 second'",
        LEASE.as_secs()
    )
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // If the job is not deleted, other jobs consider it alive until its lease expires.
        if let Some(job) = self.job.take()
            && self.session.is_connected()
        {
            let delete_job = async |client: &Client, database: &Database| {
                let begin = begin_statements(database);
                let sql = format!("{begin}; DELETE FROM jobs WHERE number = {job}; COMMIT");
                execute(client, &sql).await
            };
            let _ = self.session.run_to_completion(RENEWAL_INTERVAL, delete_job);
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

    fn refine_cause(&self, cause: Cause) -> Cause {
        if let (Cause::Moved(_), Some(open_mark)) = (&cause, &self.open_mark) {
            open_mark.mark_lost();
        }
        cause
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        self.session.read(TRANSACTION_LIMIT, async |client| {
            let sql = "SELECT EXISTS (SELECT FROM creates)";
            Ok(query_one(client, sql, &[]).await? != Some(true))
        })
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<RowEntry>>, Cause> {
        self.session.read(TRANSACTION_LIMIT, async |client| {
            let rows = rows::read(client, keys).await?;
            let current = |key| rows.get(key).and_then(Row::current).cloned();
            Ok(keys.iter().map(current).collect())
        })
    }

    fn read_emails(&mut self, emails: &[ValueHash]) -> Result<Vec<Vec<RowEntry>>, Cause> {
        self.session.read(TRANSACTION_LIMIT, async |client| {
            rows::read_emails(client, emails).await
        })
    }

    fn for_each_row(&mut self, visit: &mut dyn FnMut(RowEntry)) -> Result<(), Cause> {
        self.session.read(Duration::MAX, async |client| {
            rows::for_each_row(client, visit).await
        })
    }

    fn change_rows(&mut self, scope: &TransactionScope, work: RowsChange<'_>) -> Result<(), Cause> {
        let (job, salt) = (self.job(), self.header.salt);
        let change = async |client: &Client, database: &Database| {
            let begin = begin_statements(database);
            loop {
                let locked = rows::lock_rows(client, &begin, scope, job, salt).await?;
                if let Some(mut locked) = locked {
                    if work(&locked.header, &mut locked.rows, &mut locked.owners)? {
                        return rows::write_and_commit(client, locked).await;
                    }
                    return execute(client, "ROLLBACK").await;
                }
                execute(client, "ROLLBACK").await?;
            }
        };
        match scope.has_only_claims() {
            true => self.session.run(TRANSACTION_LIMIT, change),
            false => self.session.run_to_completion(TRANSACTION_LIMIT, change),
        }
    }

    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause> {
        let header = self
            .session
            .run(TRANSACTION_LIMIT, async |client, database| {
                in_transaction(client, &begin_statements(database), async {
                    query(client, LOCK_HEADER, &[]).await?;
                    let schema = &database.schema;
                    let current = read_header(client, schema)
                        .await?
                        .ok_or(Cause::Moved("deleted"))?;
                    let sql = "SELECT EXISTS (SELECT FROM creates)";
                    let is_empty = query_one(client, sql, &[]).await? != Some(true);
                    let Some(new) = work(&current, is_empty)? else {
                        return Ok(current);
                    };
                    let sql = "UPDATE ledger SET service = $1, keys = $2, header_check = $3";
                    let check = new.compute_check();
                    let check = &check[..];
                    let parameters = [
                        (&new.service as _, Type::TEXT),
                        (&new.key_name as _, Type::TEXT),
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

    fn renew_lease(&mut self) -> Result<bool, Cause> {
        let Some(job) = self.job else {
            return Ok(true);
        };
        let sql = format!(
            "UPDATE jobs SET lease_until = {} WHERE number = $1 AND lease_until > clock_timestamp() RETURNING number",
            lease_end_sql()
        );
        let renewed_jobs = self
            .session
            .run(RENEWAL_INTERVAL, async |client, database| {
                let parameters = [(&job as _, Type::INT8)];
                let update = query(client, &sql, &parameters);
                in_transaction(client, &begin_statements(database), update).await
            })?;
        Ok(!renewed_jobs.is_empty())
    }
}

/// Replaces the names of database users in a message of the server.
fn redact_user_names(message: &str) -> String {
    let mut parts = message.split('"');
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    let mut is_quoted = true;
    for part in parts {
        let is_user = is_quoted && (redacted.ends_with("user ") || redacted.ends_with("role "));
        redacted.push('"');
        redacted.push_str(if is_user { "…" } else { part });
        is_quoted = !is_quoted;
    }
    redacted
}

impl From<tokio_postgres::Error> for Cause {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(response) = error.as_db_error() else {
            let source = error.source().map(|source| format!(": {source}"));
            return Cause::Unreachable(format!("{error}{}", source.unwrap_or_default()));
        };
        let message = redact_user_names(response.message());
        match response.code() {
            code if code.code().starts_with("08") => Cause::Unreachable(message),
            &SqlState::ADMIN_SHUTDOWN
            | &SqlState::CRASH_SHUTDOWN
            | &SqlState::CANNOT_CONNECT_NOW
            | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            | &SqlState::TOO_MANY_CONNECTIONS => Cause::Unreachable(message),
            &SqlState::INSUFFICIENT_PRIVILEGE
            | &SqlState::INVALID_PASSWORD
            | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | &SqlState::INVALID_CATALOG_NAME
            | &SqlState::READ_ONLY_SQL_TRANSACTION => Cause::Denied(message),
            &SqlState::LOCK_NOT_AVAILABLE
            | &SqlState::QUERY_CANCELED
            | &SqlState::T_R_DEADLOCK_DETECTED => Cause::InUse,
            &SqlState::DISK_FULL => Cause::Io(io::Error::new(ErrorKind::StorageFull, message)),
            &SqlState::DUPLICATE_TABLE => Cause::NotALedger("its schema has other tables"),
            &SqlState::UNDEFINED_TABLE => Cause::Moved("deleted"),
            _ => Cause::Broken(message),
        }
    }
}
