//! Tables of a ledger. Each schema contains at most one ledger.

use tokio_postgres::{Client, Row as Columns, types::Type};

use super::{
    super::{
        error::Cause,
        store::{Header, check_format},
    },
    database::Database,
    session::{begin_statements, execute, get_bytes, get_column, in_transaction, query, query_one},
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

/// Prevents other transactions from creating tables until the end of this transaction.
const LOCK_CREATION: &str = "SELECT pg_advisory_xact_lock(7234297, 1)";

/// Reads the header of the ledger; `None` if the tables are missing or no job has used them yet.
pub(super) async fn read_header(client: &Client, schema: &str) -> Result<Option<Header>, Cause> {
    if !tables_exist(client, schema).await? {
        return Ok(None);
    }
    let rows = query(client, &format!("SELECT {HEADER_COLUMNS} FROM ledger"), &[]).await?;
    rows.first().map(parse_header).transpose()
}

/// The columns from which [`parse_header`] reads a header.
pub(super) const HEADER_COLUMNS: &str = "salt, header_check, service, keys";

/// Reads a header from the first columns of a row.
pub(super) fn parse_header(row: &Columns) -> Result<Header, Cause> {
    Header::from_columns(
        get_bytes(row, 0)?,
        get_bytes(row, 1)?,
        get_column(row, 2)?,
        get_column(row, 3)?,
    )
}

async fn tables_exist(client: &Client, schema: &str) -> Result<bool, Cause> {
    // Unlike `to_regclass`, this query sees tables that another transaction created while this one waited for its lock.
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

/// Creates the tables, if they are missing, and writes the header, if one is given and the ledger has none yet. Transactions
/// that create tables wait for each other.
pub(super) async fn create_tables(
    client: &Client,
    database: &Database,
    header: Option<&Header>,
) -> Result<(), Cause> {
    let schema = &database.schema;
    let begin = format!("{}; {LOCK_CREATION}", begin_statements(database));
    in_transaction(client, &begin, async {
        if !tables_exist(client, schema).await? {
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
        let check = header.compute_check();
        let (salt, check) = (&header.salt.0[..], &check[..]);
        let parameters = [
            (&salt as _, Type::BYTEA),
            (&check as _, Type::BYTEA),
            (&header.service as _, Type::TEXT),
            (&header.key_name as _, Type::TEXT),
        ];
        query(client, sql, &parameters).await.map(drop)
    })
    .await
}
