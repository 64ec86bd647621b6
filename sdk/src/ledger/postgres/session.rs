//! A connection, and transactions on it.

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

/// The longest wait for a connection, and for other transactions.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How long anything but copying may take: longer than the database waits by itself, so that it says why.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The time that a transaction may still take once the job is cancelled.
const GRACE: Duration = Duration::from_secs(5);

pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection, which is made when it is needed.
pub(super) struct Session {
    runtime: Runtime,
    pub(super) database: Arc<Database>,
    /// `None` after a failure: what was not committed on it is undone.
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

    /// Reads what was there at one moment.
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

    /// Does something within this time, once there is a connection. It may fail once the job is cancelled.
    pub(super) fn run<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Client, &Database) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let cancellation = self.cancellation.clone();
        self.run_cancellable(&cancellation, limit, work)
    }

    /// The same, even if the job is cancelled.
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
                None => within(cancellation, MAX_WAIT, database.connect()).await?,
            };
            match within(cancellation, limit, work(&client, database)).await {
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

/// Does something that takes no longer than this, and that ends soon once the job is cancelled.
async fn within<T>(
    cancellation: &CancellationFlag,
    limit: Duration,
    work: impl Future<Output = Result<T, Cause>>,
) -> Result<T, Cause> {
    let cancellation = async {
        while !cancellation.is_cancelled() {
            sleep(Duration::from_millis(20)).await;
        }
        // A response that is on its way has the outcomes of rows.
        sleep(GRACE).await;
    };
    match select(pin!(timeout(limit, work)), pin!(cancellation)).await {
        Either::Left((Ok(done), _)) => done,
        Either::Left((Err(_), _)) => Err(Cause::Unreachable(format!(
            "no answer within {} s",
            limit.as_secs()
        ))),
        Either::Right(_) => Err(Cause::InUse),
    }
}

/// What a transaction that writes begins with. Nothing depends on the session, which a pooler may share among clients.
pub(super) fn begin(database: &Database) -> String {
    let (schema, patience) = (&database.schema, MAX_WAIT.as_millis());
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path TO {schema};
        SET LOCAL synchronous_commit TO on; SET LOCAL statement_timeout TO {patience}; SET LOCAL lock_timeout TO 0;
        SET LOCAL idle_in_transaction_session_timeout TO {patience}"
    )
}

/// Sends the beginning and what follows together, and then the end.
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

/// Queries are typed and not prepared: that takes one round trip, and the library logs no parameters of such.
pub(super) async fn query(
    client: &Client,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Columns>, Cause> {
    Ok(client.query_typed(sql, parameters).await?)
}

/// The first column of the first row; `None` if there is no row.
pub(super) async fn query_one<T: for<'a> FromSql<'a>>(
    client: &Client,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<T>, Cause> {
    let rows = query(client, sql, parameters).await?;
    rows.first().map(|row| get(row, 0)).transpose()
}

/// A column; if it has another type, somebody has changed the tables.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Columns, column: usize) -> Result<T, Cause> {
    row.try_get(column)
        .map_err(|error| Cause::Broken(error.to_string()))
}

pub(super) fn bytes<const N: usize>(row: &Columns, column: usize) -> Result<[u8; N], Cause> {
    let bytes = get::<&[u8]>(row, column)?.try_into();
    bytes.map_err(|_| Cause::Broken("a value has the wrong length".to_owned()))
}
