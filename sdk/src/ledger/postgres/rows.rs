//! Rows: how they are locked, read and written.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    pin::pin,
};

use futures_util::{
    StreamExt as _,
    future::{try_join, try_join3, try_join5},
};
use tokio_postgres::{Client, Row as Columns, types::Type};

use super::{
    super::{
        error::Cause,
        key_hash::{Digest, KeyHash, Salt},
        state::{AgentOwners, Job, Record, RequestInfo, Row, State, WhenUnresolved},
        store::{Header, Rows, Touched, changed},
    },
    session::{bytes, execute, get, query},
    tables::{HEADER, header},
};

const RECORD: &str = "state, agent_id, status, request_id, title, code, request, email, label, job, claimed_at, noted_at";

const CLAIM: &str =
    "INSERT INTO creates (key, entry, state, request, email, label, job, claimed_at, noted_at)
    SELECT key, 0, 'sending', request, email, label, $5, $6, $6
    FROM unnest($1, $2, $3, $4) AS claimed (key, request, email, label) ORDER BY key
    ON CONFLICT DO NOTHING RETURNING key";

/// Excludes changes of the header until the end of the transaction. Each claim would have to write a row lock on the header.
const LOCK_HEADER_SHARED: &str =
    "SELECT pg_advisory_xact_lock_shared(7234298, hashtext(current_schema()::text))";

/// Excludes claims and changes of the header until the end of the transaction.
pub(super) const LOCK_HEADER: &str =
    "SELECT pg_advisory_xact_lock(7234298, hashtext(current_schema()::text))";

/// Excludes other transactions that record one of these agents of a row. Sorted, so that no two of them can deadlock.
const LOCK_AGENTS: &str = "SELECT pg_advisory_xact_lock(7234299, agent) FROM
    (SELECT DISTINCT hashtext(id) AS agent FROM unnest($1) AS id ORDER BY agent) AS agents";

const OWNERS: &str = "SELECT key, agent_id FROM creates AS it WHERE agent_id = ANY($1)
    AND entry = (SELECT max(entry) FROM creates WHERE key = it.key)";

/// The first entry of a key is never replaced by another transaction while it is locked, and stands for all of them.
const LOCK: &str =
    "SELECT key FROM creates WHERE key = ANY($1) AND entry = 0 ORDER BY key FOR UPDATE";

/// Rows that are locked.
pub(super) struct Locked {
    /// The rows to change: those that were claimed just now have no entry yet.
    pub(super) rows: Rows,
    /// The rows in the database.
    stored: Rows,
    /// The rows of the agents that the change depends on.
    pub(super) owners: AgentOwners,
    /// The header of the ledger now.
    pub(super) header: Header,
}

/// What there is of these keys.
pub(super) async fn read(client: &Client, keys: &[KeyHash]) -> Result<Rows, Cause> {
    let sql = format!("SELECT {RECORD}, key FROM creates WHERE key = ANY($1) ORDER BY entry");
    let keys = slices(keys.iter());
    let parameters = [(&keys as _, Type::BYTEA_ARRAY)];
    let (alive, found) = try_join(alive(client), query(client, &sql, &parameters)).await?;
    let mut rows = Rows::new();
    for row in &found {
        let key = KeyHash(bytes(row, 12)?);
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

/// Reads the latest records of the rows with each of these hashes of an e-mail address.
pub(super) async fn read_emails(
    client: &Client,
    emails: &[Digest],
) -> Result<Vec<Vec<Record>>, Cause> {
    let sql = "SELECT DISTINCT email, key FROM creates WHERE email = ANY($1)";
    let hashes: Vec<_> = emails.iter().map(|email| &email.0[..]).collect();
    let found = query(client, sql, &[(&hashes as _, Type::BYTEA_ARRAY)]).await?;
    let mut keys: HashMap<Digest, Vec<KeyHash>> = HashMap::new();
    for row in &found {
        let key = KeyHash(bytes(row, 1)?);
        keys.entry(Digest(bytes(row, 0)?)).or_default().push(key);
    }
    let all: Vec<_> = keys.values().flatten().copied().collect();
    let rows = read(client, &all).await?;
    let current = |key: &KeyHash| rows.get(key)?.current().cloned();
    let of_email = |email| keys.get(email).into_iter().flatten().filter_map(current);
    Ok(emails
        .iter()
        .map(|email| of_email(email).collect())
        .collect())
}

/// Claims the rows of which nothing is known, in a transaction that has been begun with `begin`, and locks and reads all.
/// `None` if a claim was made or withdrawn meanwhile.
pub(super) async fn lock(
    client: &Client,
    begin: &str,
    touched: &Touched,
    job: i64,
    salt: Salt,
) -> Result<Option<Locked>, Cause> {
    let all: Vec<_> = touched.keys.iter().copied().collect();
    let (keys, claims) = (slices(&touched.keys), slices(touched.claims.keys()));
    let requests = touched.claims.values();
    let bodies: Vec<_> = requests
        .clone()
        .map(|request| slice(&request.body))
        .collect();
    let emails: Vec<_> = requests
        .clone()
        .map(|request| slice(&request.email))
        .collect();
    let labels: Vec<_> = requests.map(|request| request.label.as_deref()).collect();
    let claim = [
        (&claims as _, Type::BYTEA_ARRAY),
        (&bodies as _, Type::BYTEA_ARRAY),
        (&emails as _, Type::BYTEA_ARRAY),
        (&labels as _, Type::TEXT_ARRAY),
        (&job as _, Type::INT8),
        (&touched.now as _, Type::INT8),
    ];
    let check = format!(
        "SELECT {HEADER}, EXISTS (SELECT FROM jobs WHERE number = $1 AND lease_until > clock_timestamp()) FROM ledger"
    );
    let of_job = [(&job as _, Type::INT8)];
    let keys = [(&keys as _, Type::BYTEA_ARRAY)];
    // Jobs and rows are read after the rows are locked: what others have committed meanwhile is then seen, and a job that has
    // claimed a row is seen alive.
    let (_, (_, owners), checked, claimed, (locked, mut stored)) = try_join5(
        execute(client, begin),
        try_join(
            query(client, LOCK_HEADER_SHARED, &[]),
            owners(client, &touched.agents),
        ),
        query(client, &check, &of_job),
        query(client, CLAIM, &claim),
        try_join(query(client, LOCK, &keys), read(client, &all)),
    )
    .await?;
    let checked = checked.first().ok_or(Cause::Moved("deleted"))?;
    let current = header(checked)?;
    if current.salt != salt {
        return Err(Cause::Moved("replaced"));
    }
    if !claims.is_empty() && !get::<bool>(checked, 4)? {
        return Err(Cause::LeaseLost);
    }
    let locked = locked.iter().map(|row| bytes(row, 0).map(KeyHash));
    let locked = locked.collect::<Result<HashSet<_>, _>>()?;
    if touched
        .claims
        .keys()
        .chain(stored.keys())
        .any(|key| !locked.contains(key))
    {
        return Ok(None);
    }
    let row = |key: &KeyHash| (*key, stored.get(key).cloned().unwrap_or_default());
    let mut rows: Rows = touched.keys.iter().map(row).collect();
    for row in &claimed {
        let key = KeyHash(bytes(row, 0)?);
        let request = touched.claims.get(&key).cloned().unwrap_or_default();
        let claimed = Record::claimed(None, WhenUnresolved::Report, &request, job, touched.now);
        rows.insert(key, Row::default());
        stored.insert(key, Row(vec![claimed]));
    }
    Ok(Some(Locked {
        rows,
        stored,
        owners,
        header: current,
    }))
}

/// Locks agents, and finds the rows that have them now.
async fn owners(client: &Client, ids: &BTreeSet<String>) -> Result<AgentOwners, Cause> {
    if ids.is_empty() {
        return Ok(AgentOwners::new());
    }
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let ids = [(&ids as _, Type::TEXT_ARRAY)];
    let (_, found) = try_join(
        query(client, LOCK_AGENTS, &ids),
        query(client, OWNERS, &ids),
    )
    .await?;
    let mut owners = AgentOwners::new();
    for row in &found {
        let key = KeyHash(bytes(row, 0)?);
        owners.entry(get(row, 1)?).or_default().push(key);
    }
    Ok(owners)
}

/// Writes what has changed, and commits, in one round trip.
pub(super) async fn save(client: &Client, locked: Locked) -> Result<(), Cause> {
    let changed = changed(&locked.stored, &locked.rows);
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
    let request_ids = column(&entries, |record| record.request_id.as_deref());
    let titles = column(&entries, |record| record.title.as_deref());
    let codes = column(&entries, |record| record.code.as_deref());
    let bodies = column(&entries, |record| slice(&record.request.body));
    let emails = column(&entries, |record| slice(&record.request.email));
    let labels = column(&entries, |record| record.request.label.as_deref());
    let jobs = column(&entries, |record| record.job.map(|job| job.number));
    let claimed = column(&entries, |record| record.claimed_at);
    let noted = column(&entries, |record| record.noted_at);
    let sql = format!(
        "INSERT INTO creates (key, entry, {RECORD})
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        ON CONFLICT (key, entry) DO UPDATE SET state = excluded.state, agent_id = excluded.agent_id,
        status = excluded.status, request_id = excluded.request_id, title = excluded.title, code = excluded.code,
        request = excluded.request, email = excluded.email, label = excluded.label, job = excluded.job,
        claimed_at = excluded.claimed_at, noted_at = excluded.noted_at"
    );
    let parameters = [
        (&keys as _, Type::BYTEA_ARRAY),
        (&numbers as _, Type::INT8_ARRAY),
        (&states as _, Type::TEXT_ARRAY),
        (&agents as _, Type::TEXT_ARRAY),
        (&statuses as _, Type::INT4_ARRAY),
        (&request_ids as _, Type::TEXT_ARRAY),
        (&titles as _, Type::TEXT_ARRAY),
        (&codes as _, Type::TEXT_ARRAY),
        (&bodies as _, Type::BYTEA_ARRAY),
        (&emails as _, Type::BYTEA_ARRAY),
        (&labels as _, Type::TEXT_ARRAY),
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
        title: get(row, 4)?,
        code: get(row, 5)?,
        request: RequestInfo {
            body: digest(row, 6)?,
            email: digest(row, 7)?,
            label: get(row, 8)?,
        },
        job: get::<Option<i64>>(row, 9)?.map(job),
        claimed_at: get(row, 10)?,
        noted_at: get(row, 11)?,
    })
}

fn digest(row: &Columns, column: usize) -> Result<Option<Digest>, Cause> {
    let is_null = get::<Option<&[u8]>>(row, column)?.is_none();
    (!is_null)
        .then(|| bytes(row, column).map(Digest))
        .transpose()
}

fn slice(digest: &Option<Digest>) -> Option<&[u8]> {
    digest.as_ref().map(|digest| &digest.0[..])
}

fn slices<'a>(keys: impl IntoIterator<Item = &'a KeyHash>) -> Vec<&'a [u8]> {
    keys.into_iter().map(|key| &key.0[..]).collect()
}
