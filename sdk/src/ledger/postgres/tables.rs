//! The tables of a ledger: a schema has one, as a file does.

use tokio_postgres::{Client, Row as Columns, types::Type};

use super::{
    super::{
        error::Cause,
        store::{Header, check_format},
    },
    database::Database,
    session::{begin, bytes, execute, get, in_transaction, query, query_one},
};

const TABLES: &str = "
CREATE TABLE version (version bigint NOT NULL);
CREATE TABLE ledger (
    one bigint PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    salt bytea NOT NULL,
    service text NOT NULL,
    keys text,
    header_check bytea NOT NULL
);
CREATE TABLE jobs (
    number bigint PRIMARY KEY,
    lease_until timestamptz NOT NULL
);
CREATE TABLE creates (
    key bytea NOT NULL,
    entry bigint NOT NULL,
    state text NOT NULL,
    agent_id text,
    status integer,
    request_id text,
    title text,
    code text,
    request bytea,
    email bytea,
    label text,
    job bigint,
    claimed_at bigint NOT NULL,
    noted_at bigint NOT NULL,
    PRIMARY KEY (key, entry)
);
CREATE INDEX creates_of_agent ON creates (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX creates_of_email ON creates (email) WHERE email IS NOT NULL;
INSERT INTO version VALUES (2);
";

/// Makes the transactions wait for each other that make tables.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7234297, 1)";

/// What the ledger says about itself, if the tables are there and a job has used them.
pub(super) async fn find(client: &Client, schema: &str) -> Result<Option<Header>, Cause> {
    if !are_there(client, schema).await? {
        return Ok(None);
    }
    let found = query(client, &format!("SELECT {HEADER} FROM ledger"), &[]).await?;
    found.first().map(header).transpose()
}

/// The columns from which [`header`] reads a header.
pub(super) const HEADER: &str = "salt, header_check, service, keys";

/// Reads a header from the first columns of a row.
pub(super) fn header(row: &Columns) -> Result<Header, Cause> {
    Header::read(bytes(row, 0)?, bytes(row, 1)?, get(row, 2)?, get(row, 3)?)
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
        Some(version) => check_format(version).map(|()| true),
        None => Err(Cause::Broken("its version is missing".to_owned())),
    }
}

/// Makes the tables, if they are missing, in a transaction that waits for others of the kind; and for a job the ledger, unless
/// there is one.
pub(super) async fn make(
    client: &Client,
    database: &Database,
    header: Option<&Header>,
) -> Result<(), Cause> {
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
        let Some(header) = header else {
            return Ok(());
        };
        let sql = "INSERT INTO ledger (salt, header_check, service, keys) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let check = header.check();
        let (salt, check) = (&header.salt.0[..], &check[..]);
        let parameters = [
            (&salt as _, Type::BYTEA),
            (&check as _, Type::BYTEA),
            (&header.service as _, Type::TEXT),
            (&header.keys as _, Type::TEXT),
        ];
        query(client, sql, &parameters).await.map(drop)
    })
    .await
}
