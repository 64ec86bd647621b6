//! Rows: how they are locked, read and written.

use std::{
    collections::{BTreeMap, HashSet},
    pin::pin,
};

use futures_util::{
    StreamExt as _,
    future::{try_join, try_join5},
};
use tokio_postgres::{Client, Row as Columns, types::Type};

use super::{
    super::{
        error::Cause,
        key_hash::KeyHash,
        state::{Job, Record, Row, State, WhenInDoubt},
        store::{Table, Touched},
    },
    session::{bytes, execute, get, query},
};

/// The columns of a [`Record`], in both tables.
const RECORD: &str = "state, agent_id, status, request_id, job, claimed_at, noted_at";

const CHECK: &str = "SELECT salt,
    EXISTS (SELECT FROM jobs WHERE number = $2 AND lease_until > clock_timestamp())
    FROM ledgers WHERE number = $1";

const CLAIM: &str = "INSERT INTO creates (ledger, key, state, job, claimed_at, noted_at)
    SELECT $1, key, 'sending', $3, $4, $4 FROM unnest($2) AS key ORDER BY key
    ON CONFLICT DO NOTHING RETURNING key";

const REPLACE: &str = "ON CONFLICT (ledger, key) DO UPDATE SET state = excluded.state,
    agent_id = excluded.agent_id, status = excluded.status, request_id = excluded.request_id,
    job = excluded.job, claimed_at = excluded.claimed_at, noted_at = excluded.noted_at";

/// Rows that are locked, and as they are in the database.
type Locked = (BTreeMap<KeyHash, Row>, BTreeMap<KeyHash, Record>);

fn of_keys() -> String {
    format!("SELECT {RECORD}, key FROM creates WHERE ledger = $1 AND key = ANY($2)")
}

/// What there is of these keys.
pub(super) async fn read(
    client: &Client,
    ledger: i64,
    keys: &[KeyHash],
) -> Result<BTreeMap<KeyHash, Record>, Cause> {
    let (sql, keys) = (of_keys(), slices(keys));
    let parameters = [(&ledger as _, Type::INT8), (&keys as _, Type::BYTEA_ARRAY)];
    let found = query(client, &sql, &parameters);
    let (alive, found) = try_join(alive(client, ledger), found).await?;
    records(&found, &alive)
}

/// Calls a function with each row of a table, with those of the history in their order.
pub(super) async fn for_each(
    client: &Client,
    ledger: i64,
    table: Table,
    take: &mut dyn FnMut(Table, KeyHash, Record),
) -> Result<(), Cause> {
    let order = match table {
        Table::Creates => "",
        Table::History => "ORDER BY number",
    };
    let name = table.name();
    let sql = format!("SELECT {RECORD}, key FROM {name} WHERE ledger = $1 {order}");
    let alive = alive(client, ledger).await?;
    let rows = client.query_typed_raw(&sql, [(ledger, Type::INT8)]);
    let mut rows = pin!(rows.await?);
    while let Some(row) = rows.next().await {
        let row = row?;
        take(table, key(&row)?, record(&row, &alive)?);
    }
    Ok(())
}

/// Claims the rows of which nothing is known, in a transaction that has been begun with `begin`, and locks and reads all.
/// `None` if a row has vanished meanwhile, because its claim was withdrawn.
pub(super) async fn lock(
    client: &Client,
    begin: &str,
    touched: &Touched,
    (ledger, job): (i64, i64),
    salt: &[u8],
) -> Result<Option<Locked>, Cause> {
    let keys: Vec<_> = touched.keys.iter().copied().collect();
    let claims: Vec<_> = touched.claims.iter().copied().collect();
    let (keys, claims) = (slices(&keys), slices(&claims));
    let all = [(&ledger as _, Type::INT8), (&keys as _, Type::BYTEA_ARRAY)];
    let claim = [
        (&ledger as _, Type::INT8),
        (&claims as _, Type::BYTEA_ARRAY),
        (&job as _, Type::INT8),
        (&touched.now as _, Type::INT8),
    ];
    let check = [(&ledger as _, Type::INT8), (&job as _, Type::INT8)];
    let locking = format!("{} ORDER BY key FOR UPDATE", of_keys());
    let history = format!(
        "SELECT {RECORD}, key, number FROM history WHERE ledger = $1 AND key = ANY($2) ORDER BY number"
    );
    // The jobs are read after the rows are locked: one that has claimed a row meanwhile is then seen alive.
    let (_, checked, claimed, found, (alive, history)) = try_join5(
        execute(client, begin),
        query(client, CHECK, &check),
        query(client, CLAIM, &claim),
        query(client, &locking, &all),
        try_join(alive(client, ledger), query(client, &history, &all)),
    )
    .await?;
    let checked = checked.first().ok_or(Cause::Moved("deleted"))?;
    if get::<&[u8]>(checked, 0)? != salt {
        return Err(Cause::Moved("replaced"));
    }
    if !claims.is_empty() && !get::<bool>(checked, 1)? {
        return Err(Cause::lease_lost());
    }
    let mut stored = records(&found, &alive)?;
    if touched.claims.iter().any(|key| !stored.contains_key(key)) {
        return Ok(None);
    }
    let row = |key: &KeyHash| (*key, Row::new(stored.get(key).cloned(), Vec::new()));
    let mut rows: BTreeMap<_, _> = touched.keys.iter().map(row).collect();
    for row in &history {
        let before = (Some(get(row, 8)?), record(row, &alive)?);
        rows.entry(key(row)?).or_default().history.push(before);
    }
    for row in &claimed {
        let key = KeyHash(bytes(row, 0)?);
        rows.entry(key).or_default().current = None;
        let claimed = Record::claimed(None, WhenInDoubt::Report, job, touched.now);
        stored.insert(key, claimed);
    }
    Ok(Some((rows, stored)))
}

/// Writes what has changed, and commits, in one round trip.
pub(super) async fn save(
    client: &Client,
    ledger: i64,
    (rows, stored): Locked,
) -> Result<(), Cause> {
    let changed = |(key, row): &(&KeyHash, &Row)| row.current.as_ref() != stored.get(key);
    let changed = rows.iter().filter(changed);
    let put = changed
        .clone()
        .filter_map(|(key, row)| Some((key, row.current.as_ref()?)));
    let gone = changed.filter(|(_, row)| row.current.is_none());
    let gone: Vec<_> = gone.map(|(key, _)| &key.0[..]).collect();
    let past = rows.iter().flat_map(|(key, row)| {
        let new = row.history.iter().filter(|(number, _)| number.is_none());
        new.map(move |(_, record)| (key, record))
    });
    let forgotten = rows.values().flat_map(|row| &row.forgotten);
    let forgotten: Vec<_> = forgotten.map(|(number, _)| *number).collect();
    let forget = async {
        let sql = "DELETE FROM history WHERE number = ANY($1)";
        if !forgotten.is_empty() {
            query(client, sql, &[(&forgotten, Type::INT8_ARRAY)]).await?;
        }
        Ok(())
    };
    let remove = async {
        let sql = "DELETE FROM creates WHERE ledger = $1 AND key = ANY($2)";
        if !gone.is_empty() {
            let parameters = [(&ledger as _, Type::INT8), (&gone as _, Type::BYTEA_ARRAY)];
            query(client, sql, &parameters).await?;
        }
        Ok(())
    };
    try_join5(
        forget,
        insert(client, ledger, "history", "", past),
        insert(client, ledger, "creates", REPLACE, put),
        remove,
        execute(client, "COMMIT"),
    )
    .await?;
    Ok(())
}

/// Writes rows together, column by column.
pub(super) async fn insert<'a>(
    client: &Client,
    ledger: i64,
    table: &str,
    on_conflict: &str,
    rows: impl Iterator<Item = (&'a KeyHash, &'a Record)>,
) -> Result<(), Cause> {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(rows: &[(&'a KeyHash, &'a Record)], of: impl Fn(&'a Record) -> T) -> Vec<T> {
        rows.iter().map(|(_, record)| of(record)).collect()
    }
    let keys: Vec<_> = rows.iter().map(|(key, _)| &key.0[..]).collect();
    let states = column(&rows, |record| record.state.as_str());
    let agents = column(&rows, |record| {
        // The database has no text with a zero. That there is an agent is what counts.
        let is_known = record.state == State::Succeeded;
        let agent_id = record.agent_id.as_deref();
        agent_id.filter(|id| !is_known || !id.contains('\0'))
    });
    let statuses = column(&rows, |record| record.status.map(i32::from));
    let requests = column(&rows, |record| record.request_id.as_deref());
    let jobs = column(&rows, |record| record.job.map(|job| job.number));
    let claimed = column(&rows, |record| record.claimed_at);
    let noted = column(&rows, |record| record.noted_at);
    let sql = format!(
        "INSERT INTO {table} (ledger, key, {RECORD})
        SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) {on_conflict}"
    );
    let parameters = [
        (&ledger as _, Type::INT8),
        (&keys as _, Type::BYTEA_ARRAY),
        (&states as _, Type::TEXT_ARRAY),
        (&agents as _, Type::TEXT_ARRAY),
        (&statuses as _, Type::INT4_ARRAY),
        (&requests as _, Type::TEXT_ARRAY),
        (&jobs as _, Type::INT8_ARRAY),
        (&claimed as _, Type::INT8_ARRAY),
        (&noted as _, Type::INT8_ARRAY),
    ];
    query(client, &sql, &parameters).await?;
    Ok(())
}

/// The jobs that live, by the database's clock.
async fn alive(client: &Client, ledger: i64) -> Result<HashSet<i64>, Cause> {
    let sql = "SELECT number FROM jobs WHERE ledger = $1 AND lease_until > clock_timestamp()";
    let rows = query(client, sql, &[(&ledger, Type::INT8)]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

fn records(rows: &[Columns], alive: &HashSet<i64>) -> Result<BTreeMap<KeyHash, Record>, Cause> {
    let rows = rows.iter();
    rows.map(|row| Ok((key(row)?, record(row, alive)?)))
        .collect()
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

fn slices(keys: &[KeyHash]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key.0[..]).collect()
}
