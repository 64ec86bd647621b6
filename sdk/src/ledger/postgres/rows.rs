//! Rows: how they are locked, read and written.

use std::{collections::HashSet, pin::pin};

use futures_util::{
    StreamExt as _,
    future::{try_join, try_join3, try_join5},
};
use tokio_postgres::{Client, Row as Columns, types::Type};

use super::{
    super::{
        error::Cause,
        key_hash::KeyHash,
        state::{Job, Record, Row, State, WhenInDoubt},
        store::{Rows, Touched, changed},
    },
    session::{bytes, execute, get, query},
};

const RECORD: &str = "state, agent_id, status, request_id, job, claimed_at, noted_at";

const CHECK: &str = "SELECT salt,
    EXISTS (SELECT FROM jobs WHERE number = $1 AND lease_until > clock_timestamp())
    FROM ledger";

const CLAIM: &str = "INSERT INTO creates (key, entry, state, job, claimed_at, noted_at)
    SELECT key, 0, 'sending', $2, $3, $3 FROM unnest($1) AS key ORDER BY key
    ON CONFLICT DO NOTHING RETURNING key";

/// The first entry of a key is never replaced by another transaction while it is locked, and stands for all of them.
const LOCK: &str =
    "SELECT key FROM creates WHERE key = ANY($1) AND entry = 0 ORDER BY key FOR UPDATE";

/// Rows that are locked, and as they are in the database.
type Locked = (Rows, Rows);

/// What there is of these keys.
pub(super) async fn read(client: &Client, keys: &[KeyHash]) -> Result<Rows, Cause> {
    let sql = format!("SELECT {RECORD}, key FROM creates WHERE key = ANY($1) ORDER BY entry");
    let keys = slices(keys.iter());
    let parameters = [(&keys as _, Type::BYTEA_ARRAY)];
    let (alive, found) = try_join(alive(client), query(client, &sql, &parameters)).await?;
    let mut rows = Rows::new();
    for row in &found {
        let key = KeyHash(bytes(row, 7)?);
        rows.entry(key).or_default().0.push(record(row, &alive)?);
    }
    Ok(rows)
}

/// Calls a function with each row as it is now.
pub(super) async fn for_each(client: &Client, take: &mut dyn FnMut(Record)) -> Result<(), Cause> {
    let sql = format!("SELECT DISTINCT ON (key) {RECORD} FROM creates ORDER BY key, entry DESC");
    let alive = alive(client).await?;
    let none: [(i64, Type); 0] = [];
    let mut rows = pin!(client.query_typed_raw(&sql, none).await?);
    while let Some(row) = rows.next().await {
        take(record(&row?, &alive)?);
    }
    Ok(())
}

/// Claims the rows of which nothing is known, in a transaction that has been begun with `begin`, and locks and reads all.
/// `None` if a row has come or gone meanwhile, because its claim was made or withdrawn.
pub(super) async fn lock(
    client: &Client,
    begin: &str,
    touched: &Touched,
    job: i64,
    salt: &[u8],
) -> Result<Option<Locked>, Cause> {
    let all: Vec<_> = touched.keys.iter().copied().collect();
    let (keys, claims) = (slices(&touched.keys), slices(&touched.claims));
    let claim = [
        (&claims as _, Type::BYTEA_ARRAY),
        (&job as _, Type::INT8),
        (&touched.now as _, Type::INT8),
    ];
    let check = [(&job as _, Type::INT8)];
    let keys = [(&keys as _, Type::BYTEA_ARRAY)];
    // Jobs and rows are read after the rows are locked: what others have committed meanwhile is then seen, and a job that has
    // claimed a row is seen alive.
    let (_, checked, claimed, locked, mut stored) = try_join5(
        execute(client, begin),
        query(client, CHECK, &check),
        query(client, CLAIM, &claim),
        query(client, LOCK, &keys),
        read(client, &all),
    )
    .await?;
    let checked = checked.first().ok_or(Cause::Moved("deleted"))?;
    if get::<&[u8]>(checked, 0)? != salt {
        return Err(Cause::Moved("replaced"));
    }
    if !claims.is_empty() && !get::<bool>(checked, 1)? {
        return Err(Cause::lease_lost());
    }
    let locked = locked.iter().map(|row| bytes(row, 0).map(KeyHash));
    let locked = locked.collect::<Result<HashSet<_>, _>>()?;
    if touched
        .claims
        .iter()
        .chain(stored.keys())
        .any(|key| !locked.contains(key))
    {
        return Ok(None);
    }
    let row = |key: &KeyHash| (*key, stored.get(key).cloned().unwrap_or_default());
    let mut rows: Rows = touched.keys.iter().map(row).collect();
    for row in &claimed {
        let key = KeyHash(bytes(row, 0)?);
        let claimed = Record::claimed(None, WhenInDoubt::Report, job, touched.now);
        rows.insert(key, Row::default());
        stored.insert(key, Row(vec![claimed]));
    }
    Ok(Some((rows, stored)))
}

/// Writes what has changed, and commits, in one round trip.
pub(super) async fn save(client: &Client, (rows, stored): Locked) -> Result<(), Cause> {
    let changed = changed(&stored, &rows);
    let put = changed
        .clone()
        .filter_map(|changed| Some((changed.key, changed.entry, changed.new?)));
    let gone = changed.filter(|changed| changed.new.is_none());
    let gone: Vec<_> = gone.map(|changed| (changed.key, changed.entry)).collect();
    try_join3(
        put_entries(client, put.collect()),
        remove(client, &gone),
        execute(client, "COMMIT"),
    )
    .await?;
    Ok(())
}

async fn remove(client: &Client, gone: &[(KeyHash, i64)]) -> Result<(), Cause> {
    if gone.is_empty() {
        return Ok(());
    }
    let keys = slices(gone.iter().map(|(key, _)| key));
    let entries: Vec<_> = gone.iter().map(|(_, entry)| *entry).collect();
    let sql = "DELETE FROM creates USING unnest($1, $2) AS gone (key, entry)
        WHERE creates.key = gone.key AND creates.entry = gone.entry";
    let parameters = [
        (&keys as _, Type::BYTEA_ARRAY),
        (&entries as _, Type::INT8_ARRAY),
    ];
    query(client, sql, &parameters).await.map(drop)
}

/// Writes entries together, column by column.
async fn put_entries(client: &Client, entries: Vec<(KeyHash, i64, &Record)>) -> Result<(), Cause> {
    if entries.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(
        entries: &[(KeyHash, i64, &'a Record)],
        of: impl Fn(&'a Record) -> T,
    ) -> Vec<T> {
        entries.iter().map(|(.., record)| of(record)).collect()
    }
    let keys = slices(entries.iter().map(|(key, ..)| key));
    let numbers: Vec<_> = entries.iter().map(|(_, entry, _)| *entry).collect();
    let states = column(&entries, |record| record.state.as_str());
    let agents = column(&entries, |record| {
        // The database has no text with a zero. That there is an agent is what counts.
        let is_known = record.state == State::Succeeded;
        let agent_id = record.agent_id.as_deref();
        agent_id.filter(|id| !is_known || !id.contains('\0'))
    });
    let statuses = column(&entries, |record| record.status.map(i32::from));
    let requests = column(&entries, |record| record.request_id.as_deref());
    let jobs = column(&entries, |record| record.job.map(|job| job.number));
    let claimed = column(&entries, |record| record.claimed_at);
    let noted = column(&entries, |record| record.noted_at);
    let sql = format!(
        "INSERT INTO creates (key, entry, {RECORD})
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (key, entry) DO UPDATE SET state = excluded.state, agent_id = excluded.agent_id,
        status = excluded.status, request_id = excluded.request_id, job = excluded.job,
        claimed_at = excluded.claimed_at, noted_at = excluded.noted_at"
    );
    let parameters = [
        (&keys as _, Type::BYTEA_ARRAY),
        (&numbers as _, Type::INT8_ARRAY),
        (&states as _, Type::TEXT_ARRAY),
        (&agents as _, Type::TEXT_ARRAY),
        (&statuses as _, Type::INT4_ARRAY),
        (&requests as _, Type::TEXT_ARRAY),
        (&jobs as _, Type::INT8_ARRAY),
        (&claimed as _, Type::INT8_ARRAY),
        (&noted as _, Type::INT8_ARRAY),
    ];
    query(client, &sql, &parameters).await.map(drop)
}

/// The jobs that live, by the database's clock.
async fn alive(client: &Client) -> Result<HashSet<i64>, Cause> {
    let sql = "SELECT number FROM jobs WHERE lease_until > clock_timestamp()";
    let rows = query(client, sql, &[]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

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

fn slices<'a>(keys: impl IntoIterator<Item = &'a KeyHash>) -> Vec<&'a [u8]> {
    keys.into_iter().map(|key| &key.0[..]).collect()
}
