//! Locks, reads and writes rows.

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
        key_hash::{KeyHash, Salt, ValueHash},
        row::{AgentOwners, Job, RequestInfo, Row, RowEntry, State, WhenUnresolved},
        store::{Header, Rows, TransactionScope, diff_entries},
    },
    session::{execute, get_bytes, get_column, query},
    tables::{HEADER_COLUMNS, parse_header},
};

const ENTRY_COLUMNS: &str = "state, agent_id, status, request_id, title, code, request, email, label, job, claimed_at, noted_at";

/// Claims the rows that have no entry yet.
const CLAIM_ROWS: &str =
    "INSERT INTO creates (key, entry, state, request, email, label, job, claimed_at, noted_at)
    SELECT key, 0, 'sending', request, email, label, $5, $6, $6
    FROM unnest($1, $2, $3, $4) AS claimed (key, request, email, label) ORDER BY key
    ON CONFLICT DO NOTHING RETURNING key";

/// Prevents other transactions from changing the header until the end of this transaction. An advisory lock is cheaper than a
/// row lock, which each claim would have to write to the table `ledger`.
const LOCK_HEADER_SHARED: &str =
    "SELECT pg_advisory_xact_lock_shared(7234298, hashtext(current_schema()::text))";

/// Prevents other transactions from claiming rows or changing the header until the end of this transaction.
pub(super) const LOCK_HEADER: &str =
    "SELECT pg_advisory_xact_lock(7234298, hashtext(current_schema()::text))";

/// Prevents other transactions from recording one of these agents for a row. The agents are sorted, so that transactions cannot
/// deadlock.
const LOCK_AGENTS: &str = "SELECT pg_advisory_xact_lock(7234299, agent) FROM
    (SELECT DISTINCT hashtext(id) AS agent FROM unnest($1) AS id ORDER BY agent) AS agents";

/// Finds the rows whose current entry has one of these agents.
const FIND_OWNERS: &str = "SELECT key, agent_id FROM creates AS it WHERE agent_id = ANY($1)
    AND entry = (SELECT max(entry) FROM creates WHERE key = it.key)";

/// Locks rows by their first entries. Each transaction locks the first entry of a row before it changes any entry of that row.
const LOCK_ROWS: &str =
    "SELECT key FROM creates WHERE key = ANY($1) AND entry = 0 ORDER BY key FOR UPDATE";

/// The rows that a transaction has locked.
pub(super) struct LockedRows {
    /// The rows to change. A new row that this transaction has claimed has no entry here yet: `Row::claim` adds it.
    pub(super) rows: Rows,
    /// The rows as the database has them, including the new claims.
    stored_rows: Rows,
    /// The rows of the agents that the change depends on.
    pub(super) owners: AgentOwners,
    /// The current header of the ledger.
    pub(super) header: Header,
}

/// Reads all entries of the rows with these keys.
pub(super) async fn read(client: &Client, keys: &[KeyHash]) -> Result<Rows, Cause> {
    let sql =
        format!("SELECT {ENTRY_COLUMNS}, key FROM creates WHERE key = ANY($1) ORDER BY entry");
    let keys = key_bytes(keys.iter());
    let parameters = [(&keys as _, Type::BYTEA_ARRAY)];
    let (live_jobs, found) =
        try_join(read_live_jobs(client), query(client, &sql, &parameters)).await?;
    let mut rows = Rows::new();
    for row in &found {
        let key = KeyHash(get_bytes(row, 12)?);
        rows.entry(key)
            .or_default()
            .0
            .push(parse_entry(row, &live_jobs)?);
    }
    Ok(rows)
}

/// Calls a function with the current entry of each row.
pub(super) async fn for_each_row(
    client: &Client,
    visit: &mut dyn FnMut(RowEntry),
) -> Result<(), Cause> {
    let sql =
        format!("SELECT DISTINCT ON (key) {ENTRY_COLUMNS} FROM creates ORDER BY key, entry DESC");
    let live_jobs = read_live_jobs(client).await?;
    let no_parameters: [(i64, Type); 0] = [];
    let mut rows = pin!(client.query_typed_raw(&sql, no_parameters).await?);
    while let Some(row) = rows.next().await {
        visit(parse_entry(&row?, &live_jobs)?);
    }
    Ok(())
}

/// Reads, for each of these hashes of e-mail addresses, the current entries of the rows with that address.
pub(super) async fn read_emails(
    client: &Client,
    emails: &[ValueHash],
) -> Result<Vec<Vec<RowEntry>>, Cause> {
    let sql = "SELECT DISTINCT email, key FROM creates WHERE email = ANY($1)";
    let hashes: Vec<_> = emails.iter().map(|email| &email.0[..]).collect();
    let key_columns = query(client, sql, &[(&hashes as _, Type::BYTEA_ARRAY)]).await?;
    let mut keys: HashMap<ValueHash, Vec<KeyHash>> = HashMap::new();
    for row in &key_columns {
        let key = KeyHash(get_bytes(row, 1)?);
        keys.entry(ValueHash(get_bytes(row, 0)?))
            .or_default()
            .push(key);
    }
    let all_keys: Vec<_> = keys.values().flatten().copied().collect();
    let rows = read(client, &all_keys).await?;
    let current = |key: &KeyHash| rows.get(key)?.current().cloned();
    let find_entries = |email| keys.get(email).into_iter().flatten().filter_map(current);
    Ok(emails
        .iter()
        .map(|email| find_entries(email).collect())
        .collect())
}

/// Begins a transaction with the statements `begin`, claims the rows that have no entry, and locks and reads all rows in scope.
/// Returns `None` if another transaction has claimed or released one of the rows meanwhile: the caller then starts again.
pub(super) async fn lock_rows(
    client: &Client,
    begin: &str,
    scope: &TransactionScope,
    job: i64,
    salt: Salt,
) -> Result<Option<LockedRows>, Cause> {
    let all_keys: Vec<_> = scope.keys.iter().copied().collect();
    let (keys, claims) = (key_bytes(&scope.keys), key_bytes(scope.claims.keys()));
    let requests = scope.claims.values();
    let bodies: Vec<_> = requests
        .clone()
        .map(|request| hash_bytes(&request.body_hash))
        .collect();
    let emails: Vec<_> = requests
        .clone()
        .map(|request| hash_bytes(&request.email_hash))
        .collect();
    let labels: Vec<_> = requests.map(|request| request.label.as_deref()).collect();
    let claim_parameters = [
        (&claims as _, Type::BYTEA_ARRAY),
        (&bodies as _, Type::BYTEA_ARRAY),
        (&emails as _, Type::BYTEA_ARRAY),
        (&labels as _, Type::TEXT_ARRAY),
        (&job as _, Type::INT8),
        (&scope.now as _, Type::INT8),
    ];
    let check_sql = format!(
        "SELECT {HEADER_COLUMNS}, EXISTS (SELECT FROM jobs WHERE number = $1 AND lease_until > clock_timestamp()) FROM ledger"
    );
    let job_number = [(&job as _, Type::INT8)];
    let keys = [(&keys as _, Type::BYTEA_ARRAY)];
    // Jobs and rows are read after the rows are locked. Only then do the reads see everything that other transactions have
    // committed, such as the lease of a job that has just claimed one of the rows.
    let (_, (_, owners), header_rows, claimed, (locked, mut stored_rows)) = try_join5(
        execute(client, begin),
        try_join(
            query(client, LOCK_HEADER_SHARED, &[]),
            lock_and_read_owners(client, &scope.agents),
        ),
        query(client, &check_sql, &job_number),
        query(client, CLAIM_ROWS, &claim_parameters),
        try_join(query(client, LOCK_ROWS, &keys), read(client, &all_keys)),
    )
    .await?;
    let header_row = header_rows.first().ok_or(Cause::Moved("deleted"))?;
    let header = parse_header(header_row)?;
    if header.salt != salt {
        return Err(Cause::Moved("replaced"));
    }
    if !claims.is_empty() && !get_column::<bool>(header_row, 4)? {
        return Err(Cause::LeaseLost);
    }
    let locked_keys = locked.iter().map(|row| get_bytes(row, 0).map(KeyHash));
    let locked_keys = locked_keys.collect::<Result<HashSet<_>, _>>()?;
    if scope
        .claims
        .keys()
        .chain(stored_rows.keys())
        .any(|key| !locked_keys.contains(key))
    {
        return Ok(None);
    }
    let row = |key: &KeyHash| (*key, stored_rows.get(key).cloned().unwrap_or_default());
    let mut rows: Rows = scope.keys.iter().map(row).collect();
    for row in &claimed {
        let key = KeyHash(get_bytes(row, 0)?);
        let request = scope.claims.get(&key).cloned().unwrap_or_default();
        let claim = RowEntry::new_claim(None, WhenUnresolved::Report, &request, job, scope.now);
        rows.insert(key, Row::default());
        stored_rows.insert(key, Row(vec![claim]));
    }
    Ok(Some(LockedRows {
        rows,
        stored_rows,
        owners,
        header,
    }))
}

/// Locks agents, and finds the rows that have these agents now.
async fn lock_and_read_owners(
    client: &Client,
    ids: &BTreeSet<String>,
) -> Result<AgentOwners, Cause> {
    if ids.is_empty() {
        return Ok(AgentOwners::new());
    }
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let ids = [(&ids as _, Type::TEXT_ARRAY)];
    let (_, found) = try_join(
        query(client, LOCK_AGENTS, &ids),
        query(client, FIND_OWNERS, &ids),
    )
    .await?;
    let mut owners = AgentOwners::new();
    for row in &found {
        let key = KeyHash(get_bytes(row, 0)?);
        owners.entry(get_column(row, 1)?).or_default().push(key);
    }
    Ok(owners)
}

/// Writes the changed entries, and commits, in one round trip.
pub(super) async fn write_and_commit(client: &Client, locked: LockedRows) -> Result<(), Cause> {
    let changes = diff_entries(&locked.stored_rows, &locked.rows);
    let upserted_entries = changes
        .clone()
        .filter_map(|change| Some((change.key, change.number, change.new?)));
    let deletions = changes.filter(|change| change.new.is_none());
    let deletions: Vec<_> = deletions
        .map(|change| (change.key, change.number))
        .collect();
    try_join3(
        upsert_entries(client, upserted_entries.collect()),
        delete_entries(client, &deletions),
        execute(client, "COMMIT"),
    )
    .await?;
    Ok(())
}

/// Deletes entries, given by their keys and numbers.
async fn delete_entries(client: &Client, deletions: &[(KeyHash, i64)]) -> Result<(), Cause> {
    if deletions.is_empty() {
        return Ok(());
    }
    let keys = key_bytes(deletions.iter().map(|(key, _)| key));
    let numbers: Vec<_> = deletions.iter().map(|(_, number)| *number).collect();
    let sql = "DELETE FROM creates USING unnest($1, $2) AS deleted (key, entry)
        WHERE creates.key = deleted.key AND creates.entry = deleted.entry";
    let parameters = [
        (&keys as _, Type::BYTEA_ARRAY),
        (&numbers as _, Type::INT8_ARRAY),
    ];
    query(client, sql, &parameters).await.map(drop)
}

/// Inserts or updates entries, in one statement whose parameters are the columns.
async fn upsert_entries(
    client: &Client,
    entries: Vec<(KeyHash, i64, &RowEntry)>,
) -> Result<(), Cause> {
    if entries.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(
        entries: &[(KeyHash, i64, &'a RowEntry)],
        value: impl Fn(&'a RowEntry) -> T,
    ) -> Vec<T> {
        entries.iter().map(|(.., entry)| value(entry)).collect()
    }
    let keys = key_bytes(entries.iter().map(|(key, ..)| key));
    let numbers: Vec<_> = entries.iter().map(|(_, number, _)| *number).collect();
    let states = column(&entries, |entry| entry.state.as_str());
    let agents = column(&entries, |entry| {
        // PostgreSQL cannot store U+0000. The row then succeeds without an identifier: that the agent exists is more important.
        let is_created = entry.state == State::Succeeded;
        let agent_id = entry.agent_id.as_deref();
        agent_id.filter(|id| !is_created || !id.contains('\0'))
    });
    let statuses = column(&entries, |entry| entry.status.map(i32::from));
    let request_ids = column(&entries, |entry| entry.request_id.as_deref());
    let titles = column(&entries, |entry| entry.title.as_deref());
    let codes = column(&entries, |entry| entry.code.as_deref());
    let bodies = column(&entries, |entry| hash_bytes(&entry.request.body_hash));
    let emails = column(&entries, |entry| hash_bytes(&entry.request.email_hash));
    let labels = column(&entries, |entry| entry.request.label.as_deref());
    let jobs = column(&entries, |entry| entry.job.map(|job| job.number));
    let claimed_at = column(&entries, |entry| entry.claimed_at);
    let noted_at = column(&entries, |entry| entry.noted_at);
    let sql = format!(
        "INSERT INTO creates (key, entry, {ENTRY_COLUMNS})
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
        (&claimed_at as _, Type::INT8_ARRAY),
        (&noted_at as _, Type::INT8_ARRAY),
    ];
    query(client, &sql, &parameters).await.map(drop)
}

/// Reads the numbers of the jobs that are alive by the database's clock.
async fn read_live_jobs(client: &Client) -> Result<HashSet<i64>, Cause> {
    let sql = "SELECT number FROM jobs WHERE lease_until > clock_timestamp()";
    let rows = query(client, sql, &[]).await?;
    rows.iter().map(|row| get_column(row, 0)).collect()
}

fn parse_entry(row: &Columns, live_jobs: &HashSet<i64>) -> Result<RowEntry, Cause> {
    let state = State::parse(get_column(row, 0)?);
    let status: Option<i32> = get_column(row, 2)?;
    let job = |number| Job {
        number,
        is_alive: live_jobs.contains(&number),
    };
    Ok(RowEntry {
        state: state.ok_or_else(|| Cause::Broken("a row has no known state".to_owned()))?,
        agent_id: get_column(row, 1)?,
        status: status.and_then(|status| status.try_into().ok()),
        request_id: get_column(row, 3)?,
        title: get_column(row, 4)?,
        code: get_column(row, 5)?,
        request: RequestInfo {
            body_hash: get_hash(row, 6)?,
            email_hash: get_hash(row, 7)?,
            label: get_column(row, 8)?,
        },
        job: get_column::<Option<i64>>(row, 9)?.map(job),
        claimed_at: get_column(row, 10)?,
        noted_at: get_column(row, 11)?,
    })
}

fn get_hash(row: &Columns, column: usize) -> Result<Option<ValueHash>, Cause> {
    let is_null = get_column::<Option<&[u8]>>(row, column)?.is_none();
    (!is_null)
        .then(|| get_bytes(row, column).map(ValueHash))
        .transpose()
}

fn hash_bytes(hash: &Option<ValueHash>) -> Option<&[u8]> {
    hash.as_ref().map(|hash| &hash.0[..])
}

fn key_bytes<'a>(keys: impl IntoIterator<Item = &'a KeyHash>) -> Vec<&'a [u8]> {
    keys.into_iter().map(|key| &key.0[..]).collect()
}
