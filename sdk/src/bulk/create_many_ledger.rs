//! The options of a [`CreateMany`] with a ledger.

use crate::{
    bulk::{
        create_many::CreateMany,
        create_with_ledger::{Resolve, make_resolve},
        job_ledger::JobLedger,
        row::{CreateRow, KeyedRow},
    },
    ledger::{Ledger, Resolution, UnresolvedRow},
    transport::base_url,
    value::opaque_debug,
};

impl<I, T, M> CreateMany<I, T, M> {
    /// Records the outcome of each row in a ledger, a local log of idempotency keys. With a ledger, the job survives a crash of
    /// the process or the machine: run the job again with the same rows, and it creates only the agents of rows that are new or
    /// were not sent. Each row needs its own idempotency key, which is the same in every run. So each row is a [`KeyedRow`],
    /// for example a pair `(key, row)`. The key is never sent to the service. `key_name` says what the keys are, such as
    /// `"email"`. A job whose `key_name` differs from the ledger's is rejected: the ledger would recognise none of its rows,
    /// and every agent would be created again. With `None`, the names are not compared.
    ///
    /// | the ledger's record of a row | the next run |
    /// |---|---|
    /// | none, or that there is no agent | sends the row |
    /// | created | returns [`Created::Already`](crate::Created::Already), with the agent's identifier |
    /// | rejected | returns the rejection, with its status. A row that was rejected for a reason other than its content (a 401, 403, 404, 405, 407, 421, 425, 426, 429, or a redirect) is sent again. So is a row that you have corrected, with [`resend_corrected`](Self::resend_corrected), or once you have [resolved](crate::ledger::Ledger::resolve) that it has no agent |
    /// | unknown: the row was about to be sent, and nothing else was recorded, or an outcome that is unknown | returns an error, and sends nothing: find out whether there is an agent and [resolve](crate::ledger::Ledger::resolve) the row, or set [`resolve`](CreateMany::resolve) to find out; [`resend_unknown`](Self::resend_unknown) sends the row all the same |
    /// | another job is sending the row now | returns an error ([`Error::is_in_flight`](crate::Error::is_in_flight)), and sends nothing; or [waits](Self::wait_in_flight) for that job |
    ///
    /// These errors are of kind [`AlreadyAttempted`](crate::ErrorKind::AlreadyAttempted), and their outcomes distinguish the cases. Rows that
    /// break the rules are not recorded, so they are sent once corrected. If two rows have the same key, the second is an
    /// error of kind [`DuplicateKey`](crate::ErrorKind::DuplicateKey).
    ///
    /// ```no_run
    /// # struct Record { id: String, request: Result<dealkit::CreateAgent, dealkit::ValidationError> }
    /// # async fn example(client: dealkit::Client, records: Vec<Record>) {
    /// use dealkit::{Created, ledger::Ledger};
    ///
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let rows = records.into_iter().map(|record| (record.id, record.request));
    /// let mut creations = client.agents().create_many(rows).ledger(&ledger, "id").stream();
    /// while let Some(creation) = creations.next().await {
    ///     match &creation.result {
    ///         Ok(Created::Now(agent)) => println!("row {}: created {}", creation.index, agent.id),
    ///         Ok(Created::Already { agent_id, .. }) => println!("row {}: had {agent_id:?}", creation.index),
    ///         Err(error) => eprintln!("row {}: {error}", creation.index),
    ///     }
    ///     if let Some(error) = &creation.ledger_error {
    ///         eprintln!("row {}: the outcome is not in the ledger: {error}", creation.index);
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Durability
    ///
    /// Before the first byte of a row's request is sent, its claim (the record that this job sends the row) is on disk. Before
    /// the row's result is returned, its outcome is on disk. Rows that wait for the disk share one transaction, and while an
    /// outcome is being written, another row is already sent. So a crash loses nothing: the outcome is unknown only for the
    /// rows that were in flight.
    ///
    /// Once the ledger can no longer be written (because the disk is full, or the file was moved), no more rows are taken from
    /// the iterator: rows that were taken and not sent are errors of kind [`Ledger`](crate::ErrorKind::Ledger). Rows in flight
    /// still complete. If the outcome of such a row [could not be recorded](crate::Creation::ledger_error), its result gives
    /// the reason.
    ///
    /// # Contents of the ledger
    ///
    /// For each row, the ledger contains its state, the agent's identifier, the status, the request's id, and times. Keys are
    /// stored only as hashes (BLAKE2b with a salt unique to the ledger), so a person who reads the ledger does not see e-mail
    /// addresses. But anyone who has the ledger can check whether it contains a guessed key, because the ledger contains the
    /// salt too. So on Unix, only its owner can read a new ledger file. Protect the ledger like the rows. The schema is
    /// specified in `sdk/contract/ledger.md` in the repository.
    ///
    /// A separate thread has the ledger open, and looks up each row. Each row of the job takes 30 bytes of memory, with which
    /// the job finds rows with the same key.
    ///
    /// # Errors
    /// The ledger is opened, and created if it does not exist, when the first row needs it. If the ledger cannot be opened or
    /// written, belongs to another service, has keys with another name, or is not a ledger at all, the row gets an error, and
    /// no further rows are taken.
    ///
    /// # Rows without keys
    /// do not compile:
    ///
    /// ```compile_fail
    /// # fn example(client: dealkit::Client, rows: Vec<dealkit::CreateAgent>, ledger: dealkit::ledger::Ledger) {
    /// client.agents().create_many(rows).ledger(&ledger, "email");
    /// # }
    /// ```
    pub fn ledger<'a>(mut self, ledger: &Ledger, key_name: impl Into<Option<&'a str>>) -> Self
    where
        I: Iterator,
        I::Item: Into<KeyedRow>,
    {
        let base_url = base_url::normalize(&self.operation.agents.service.base_url);
        self.operation.ledger = Some(JobLedger::new(ledger, base_url, key_name.into()));
        self
    }

    /// Sets a function that returns the label of each row, such as an identifier in your own system, or `None`. The
    /// [ledger](Self::ledger) records the labels. They say which of your records an unresolved row belongs to:
    /// `dealkit ledger show`, the [unresolved rows](crate::ledger::LedgerSummary::unresolved), [`resolve`](CreateMany::resolve)
    /// and the errors of these rows have them. A label is stored as text, unlike a key, so it must not be personal data. Without
    /// this function, rows have the labels of [`CreateRow::label`](crate::CreateRow::label), if any.
    ///
    /// A label longer than [`MAX_LABEL`](crate::CreateRow::MAX_LABEL) is the row's error.
    ///
    /// ```no_run
    /// # use std::collections::HashMap;
    /// # fn example(client: dealkit::Client, rows: Vec<(String, dealkit::CreateAgent)>, crm_ids: HashMap<String, String>)
    /// #     -> Result<(), dealkit::ledger::LedgerError> {
    /// use dealkit::ledger::Ledger;
    ///
    /// // The key of each row is an e-mail address, and its label is an identifier without personal data.
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let job = client.agents().create_many(rows);
    /// let job = job.label(move |(email, _)| crm_ids.get(email).cloned());
    /// let creations = job.ledger(&ledger, "email").stream();
    /// // … later:
    /// for row in ledger.summary()?.unresolved {
    ///     println!("find out whether the agent of {:?} exists", row.label);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn label<F, L>(self, label: F) -> CreateMany<LabeledRows<I, F>, T, M>
    where
        I: Iterator,
        F: FnMut(&I::Item) -> L,
        L: Into<Option<String>>,
    {
        self.map_inputs(|rows| LabeledRows { rows, label })
    }

    /// Sends a row again if its outcome is unknown according to the [ledger](Self::ledger), without finding out whether its
    /// agent exists. If an earlier run did create the agent, there are then two agents. To find out first, use
    /// [`resolve`](Self::resolve).
    pub fn resend_unknown(mut self) -> Self {
        self.operation.ledger_options.resend_unknown = true;
        self
    }

    /// Sends a row again if the service rejected it and the row's request has changed since, according to the
    /// [ledger](Self::ledger). So you can correct rejected rows and run the job again, without resolving the rows. A rejected
    /// row whose request is the same stays rejected, and so does one whose request the ledger does not know. Rows with other
    /// outcomes are not affected. If several jobs have the same correction, one of them sends it.
    ///
    /// The row keeps its key: a row with another key is a new row. If the request of a rejected row now breaks the rules, the
    /// row's result is that error.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, rows: Vec<dealkit::KeyedRow>) {
    /// use dealkit::{Outcome, ledger::Ledger};
    ///
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let job = client.agents().create_many(rows).ledger(&ledger, "id").resend_corrected();
    /// let mut creations = job.stream();
    /// while let Some(creation) = creations.next().await {
    ///     if creation.outcome() == Outcome::Rejected && creation.is_from_ledger() {
    ///         println!("row {} was not corrected", creation.index);
    ///     }
    /// }
    /// # }
    /// ```
    pub fn resend_corrected(mut self) -> Self {
        self.operation.ledger_options.resend_corrected = true;
        self
    }

    /// If another job is sending a row, waits until that job has recorded the outcome, at most as long as a call may take
    /// ([`timeout`](crate::CallOptions::timeout)). The row's result is then the outcome that the other job recorded. If the
    /// other job did not send the row after all, this job sends it. Without this option, or when the time is up, the row gets
    /// an error for which [`is_in_flight`](crate::Error::is_in_flight) returns true.
    pub fn wait_in_flight(mut self) -> Self {
        self.operation.ledger_options.wait_in_flight = true;
        self
    }

    pub(crate) fn set_resolve(mut self, resolve: Resolve) -> Self {
        self.operation.ledger_options.resolve = Some(resolve);
        self
    }
}

impl<I, T> CreateMany<I, T> {
    /// Calls `resolve` for each unresolved row before the row is sent again, to find out whether its agent exists. The API
    /// cannot look up agents. So `resolve` has to look elsewhere: in a database, through another API, or by asking the
    /// service's staff.
    ///
    /// | `resolve` returns | the row |
    /// |---|---|
    /// | [`Resolution::Agent`](crate::ledger::Resolution::Agent) | is resolved in the [ledger](Self::ledger), and reported as [`Created::Already`](crate::Created::Already) |
    /// | [`Resolution::NoAgent`](crate::ledger::Resolution::NoAgent) | is resolved as having none, and sent |
    /// | [`Resolution::Unknown`](crate::ledger::Resolution::Unknown) | stays unknown, and is not sent |
    /// | an error, or it panics, or the identifier [cannot be resolved](crate::ledger::Ledger::resolve) | stays unknown, and is not sent; the error is the [`source`](std::error::Error::source) of the row's error |
    ///
    /// An agent that your search does not find may still be created: a request that was cut off may still be in progress, and
    /// your search may lag behind. So return `NoAgent` only once [`sent_at`](crate::ledger::UnresolvedRow::sent_at) is longer
    /// ago than both of these delays can last, and `Unknown` until then.
    ///
    /// `resolve` is called for as many rows at a time as may be in flight. While `resolve` runs for a row, no other job sends
    /// or resolves the row. dealkit sets no timeout for `resolve`. If the job is cancelled, the future of `resolve` is dropped,
    /// and the outcome of the row stays unknown. Without a [ledger](Self::ledger), no row is sent.
    ///
    /// A closure that uses variables, such as the pool of a database, is a function that clones them for each future:
    ///
    /// ```no_run
    /// # use dealkit::{AgentId, KeyedRow, chrono::Utc, ledger::{Ledger, Resolution, UnresolvedRow}};
    /// # #[derive(Clone)] struct Database;
    /// # impl Database { async fn search(&self, email: &str) -> Result<Option<AgentId>, std::io::Error> { Ok(None) } }
    /// # fn example(client: dealkit::Client, rows: Vec<KeyedRow>, database: Database) {
    /// let find_agent = move |row: UnresolvedRow| {
    ///     let database = database.clone();
    ///     async move {
    ///         Ok::<_, std::io::Error>(match database.search(&row.key).await? {
    ///             Some(id) => Resolution::Agent(id),
    ///             None if (Utc::now() - row.sent_at).num_minutes() >= 60 => Resolution::NoAgent,
    ///             None => Resolution::Unknown,
    ///         })
    ///     }
    /// };
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let creations = client.agents().create_many(rows).ledger(&ledger, "email").resolve(find_agent).stream();
    /// # }
    /// ```
    ///
    /// The shorter `async move |row| …` compiles only if the closure uses no variables. With variables, its future borrows from
    /// the closure, and Rust cannot yet require such a future to be `Send`.
    pub fn resolve<F, R, E>(self, resolve: F) -> Self
    where
        F: Fn(UnresolvedRow) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Resolution, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.set_resolve(make_resolve(resolve))
    }
}

/// The rows of a job, with their labels; see [`CreateMany::label`].
pub struct LabeledRows<I, F> {
    rows: I,
    label: F,
}

impl<I, F, L> Iterator for LabeledRows<I, F>
where
    I: Iterator,
    F: FnMut(&I::Item) -> L,
    L: Into<Option<String>>,
{
    type Item = LabeledRow<I::Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        let label = (self.label)(&row).into();
        Some(LabeledRow { row, label })
    }
}

opaque_debug!(LabeledRows<I, F>);

/// A row with its label; see [`CreateMany::label`].
pub struct LabeledRow<R> {
    row: R,
    label: Option<String>,
}

impl<R: Into<CreateRow>> From<LabeledRow<R>> for CreateRow {
    fn from(LabeledRow { row, label }: LabeledRow<R>) -> Self {
        let row = row.into();
        Self {
            label: label.or(row.label),
            ..row
        }
    }
}

impl<R: Into<KeyedRow>> From<LabeledRow<R>> for KeyedRow {
    fn from(LabeledRow { row, label }: LabeledRow<R>) -> Self {
        let row = row.into();
        match label {
            Some(label) => row.label(label),
            None => row,
        }
    }
}

opaque_debug!(LabeledRow<R>);
