//! Connection to the database, and transactions on it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select, try_join};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{
    Client, Row as Columns,
    types::{FromSql, ToSql, Type},
};

use super::{
    super::{cancellation::CancellationFlag, error::Cause},
    database::Database,
};

/// The longest wait for a connection or for a statement, which includes the waits for other transactions.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The longest time for a transaction. It is longer than the database's own limit, so that the database's error is reported
/// first.
pub(super) const TRANSACTION_LIMIT: Duration = Duration::from_secs(60);

/// The time that a transaction may still take once the job is cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection, which is opened when it is needed and replaced after a failure.
pub(super) struct Session {
    runtime: Runtime,
    pub(super) database: Arc<Database>,
    /// The open connection; `None` at first and after a failure, because closing it rolls back the open transaction.
    connection: Option<(Client, JoinHandle<()>)>,
    cancellation: CancellationFlag,
}

impl Session {
    pub(super) fn new(
        database: &Arc<Database>,
        cancellation: &CancellationFlag,
    ) -> Result<Self, Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            runtime,
            database: Arc::clone(database),
            connection: None,
            cancellation: cancellation.clone(),
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|(client, _)| !client.is_closed())
    }

    /// Calls a function in a read-only transaction, whose statements all see the same snapshot.
    pub(super) fn read<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Client) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        self.run(limit, async |client, database| {
            let begin = format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path TO {}",
                database.schema
            );
            in_transaction(client, &begin, work(client)).await
        })
    }

    /// Calls a function with an open connection and this time limit. May fail once the job is cancelled.
    pub(super) fn run<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Client, &Database) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let cancellation = self.cancellation.clone();
        self.run_cancellable(&cancellation, limit, work)
    }

    /// Calls a function as [`run`](Self::run) does, but does not fail if the job is cancelled.
    pub(super) fn run_to_completion<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Client, &Database) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        self.run_cancellable(&CancellationFlag::default(), limit, work)
    }

    fn run_cancellable<T>(
        &mut self,
        cancellation: &CancellationFlag,
        limit: Duration,
        work: impl AsyncFnOnce(&Client, &Database) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let is_connected = self.is_connected();
        let Self {
            runtime,
            database,
            connection: slot,
            ..
        } = self;
        let connection = slot.take().filter(|_| is_connected);
        let (value, connection) = runtime.block_on(async {
            let (client, task) = match connection {
                Some(connection) => connection,
                None => run_within(cancellation, MAX_WAIT, database.connect()).await?,
            };
            match run_within(cancellation, limit, work(&client, database)).await {
                Ok(value) => Ok((value, (client, task))),
                Err(cause) => {
                    // Closes the connection immediately, so that the server rolls back and releases its locks.
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

/// Runs a future with a time limit. Once the job is cancelled, the future has only the time [`CANCEL_GRACE`].
async fn run_within<T>(
    cancellation: &CancellationFlag,
    limit: Duration,
    work: impl Future<Output = Result<T, Cause>>,
) -> Result<T, Cause> {
    let cancellation = async {
        while !cancellation.is_cancelled() {
            sleep(Duration::from_millis(20)).await;
        }
        // The grace period lets a transaction that also records outcomes complete.
        sleep(CANCEL_GRACE).await;
    };
    match select(pin!(timeout(limit, work)), pin!(cancellation)).await {
        Either::Left((Ok(result), _)) => result,
        Either::Left((Err(_), _)) => Err(Cause::Unreachable(format!(
            "no response within {} s",
            limit.as_secs()
        ))),
        Either::Right(_) => Err(Cause::InUse),
    }
}

/// Returns the statements that begin a transaction that writes. Their settings apply to the transaction only, because a
/// connection pooler may share the session among clients.
pub(super) fn begin_statements(database: &Database) -> String {
    let (schema, limit_ms) = (&database.schema, MAX_WAIT.as_millis());
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path TO {schema};
        SET LOCAL synchronous_commit TO on; SET LOCAL statement_timeout TO {limit_ms}; SET LOCAL lock_timeout TO 0;
        SET LOCAL idle_in_transaction_session_timeout TO {limit_ms}"
    )
}

/// Runs a transaction: sends the `begin` statements together with the first statements of `work`, and commits at the end.
pub(super) async fn in_transaction<T>(
    client: &Client,
    begin: &str,
    work: impl Future<Output = Result<T, Cause>>,
) -> Result<T, Cause> {
    let (_, value) = try_join(execute(client, begin), work).await?;
    execute(client, "COMMIT").await?;
    Ok(value)
}

pub(super) async fn execute(client: &Client, sql: &str) -> Result<(), Cause> {
    Ok(client.batch_execute(sql).await?)
}

/// Runs a query with typed parameters. Without a prepared statement, this takes one round trip, and the library does not log
/// the parameters.
pub(super) async fn query(
    client: &Client,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Columns>, Cause> {
    Ok(client.query_typed(sql, parameters).await?)
}

/// Returns the first column of the first row; `None` if there is no row.
pub(super) async fn query_one<T: for<'a> FromSql<'a>>(
    client: &Client,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<T>, Cause> {
    let rows = query(client, sql, parameters).await?;
    rows.first().map(|row| get_column(row, 0)).transpose()
}

/// Returns the value of a column. A value of another type than expected means that another program has changed the tables.
pub(super) fn get_column<'a, T: FromSql<'a>>(row: &'a Columns, column: usize) -> Result<T, Cause> {
    row.try_get(column)
        .map_err(|error| Cause::Broken(error.to_string()))
}

pub(super) fn get_bytes<const N: usize>(row: &Columns, column: usize) -> Result<[u8; N], Cause> {
    let bytes = get_column::<&[u8]>(row, column)?.try_into();
    bytes.map_err(|_| Cause::Broken("a value has the wrong length".to_owned()))
}
