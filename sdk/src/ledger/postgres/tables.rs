//! The tables of a database, and the ledgers in them.

use tokio_postgres::{Client, types::Type};

use super::{
    super::{
        error::Cause,
        store::{Copied, Header, Table},
    },
    database::Database,
    rows::insert,
    session::{begin, bytes, execute, get, in_transaction, query, query_one},
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
CREATE INDEX creates_of_agent ON creates (ledger, agent_id) WHERE agent_id IS NOT NULL;
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

/// How many rows are copied together.
const AT_ONCE: usize = 5000;

/// A ledger that a database has.
pub(super) struct Found {
    pub(super) number: i64,
    pub(super) header: Header,
    is_empty: bool,
}

/// The ledger of this service and these keys, if the tables and the ledger are there.
pub(super) async fn find(
    client: &Client,
    schema: &str,
    service: Option<&str>,
    keys: Option<&str>,
) -> Result<Option<Found>, Cause> {
    if !are_there(client, schema).await? {
        return Ok(None);
    }
    choose(ledgers(client).await?, service, keys)
}

async fn are_there(client: &Client, schema: &str) -> Result<bool, Cause> {
    // Unlike `to_regclass`, this sees what another has made while this waited for it.
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = '{schema}' AND tablename = 'version')"
    );
    if query_one(client, &sql, &[]).await? != Some(true) {
        return Ok(false);
    }
    let sql = format!("SELECT version FROM {schema}.version");
    match query_one(client, &sql, &[]).await? {
        Some(VERSION) => Ok(true),
        Some(version) => Err(Cause::NewerFormat(version)),
        None => Err(Cause::Broken("its version is missing".to_owned())),
    }
}

/// Makes the tables, if they are missing, and what is to be in them, in one transaction that waits for others of the kind.
pub(super) async fn make<T>(
    client: &Client,
    database: &Database,
    content: impl Future<Output = Result<T, Cause>>,
) -> Result<T, Cause> {
    let schema = &database.schema;
    let begin = format!("{}; {LOCK}", begin(database));
    in_transaction(client, &begin, async {
        if !are_there(client, schema).await? {
            let sql =
                format!("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{schema}')");
            if query_one(client, &sql, &[]).await? != Some(true) {
                execute(client, &format!("CREATE SCHEMA {schema}")).await?;
            }
            execute(client, TABLES).await?;
        }
        content.await
    })
    .await
}

/// Makes a ledger, unless there is one. Unless somebody wants it, it is made only where no other has any rows.
pub(super) async fn make_ledger(
    client: &Client,
    service: &str,
    keys: Option<&str>,
    is_wanted: bool,
) -> Result<Found, Cause> {
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
    let header = Header::new(service, keys)?;
    Ok(Found {
        number: insert_ledger(client, &header).await?,
        header,
        is_empty: true,
    })
}

async fn insert_ledger(client: &Client, header: &Header) -> Result<i64, Cause> {
    let sql = "INSERT INTO ledgers (salt, salt_check, service, keys) VALUES ($1, $2, $3, $4) RETURNING number";
    let check = header.check();
    let (salt, check) = (&header.salt[..], &check[..]);
    let parameters = [
        (&salt as _, Type::BYTEA),
        (&check as _, Type::BYTEA),
        (&header.service as _, Type::TEXT),
        (&header.keys as _, Type::TEXT),
    ];
    let number = query_one(client, sql, &parameters).await?;
    number.ok_or(Cause::Moved("deleted"))
}

/// Makes a ledger with rows of another, which may take the place of one without rows.
pub(super) async fn make_copy(
    client: &Client,
    header: &Header,
    rows: &Copied,
) -> Result<(), Cause> {
    let is_it = |found: &Found| {
        (&found.header.service, &found.header.keys) == (&header.service, &header.keys)
    };
    if let Some(there) = ledgers(client).await?.into_iter().find(is_it) {
        if !there.is_empty {
            return Err(Cause::AlreadyThere);
        }
        let sql = "DELETE FROM ledgers WHERE number = $1";
        query(client, sql, &[(&there.number, Type::INT8)]).await?;
    }
    let number = insert_ledger(client, header).await?;
    for rows in rows.chunks(AT_ONCE) {
        for table in Table::ALL {
            let rows = rows.iter().filter(|(of, ..)| *of == table);
            let rows = rows.map(|(_, key, record)| (key, record));
            insert(client, number, table.name(), "", rows).await?;
        }
    }
    Ok(())
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
