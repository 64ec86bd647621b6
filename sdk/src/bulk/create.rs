//! Creating many agents, a bounded number at a time.

use std::{
    fmt,
    path::Path,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _, Stream, StreamExt,
    future::{BoxFuture, ready as done},
};
use http::StatusCode;
use tokio::runtime::Handle;
use url::Url;

use crate::{
    bulk::{
        recorder::{Decision, Recorder, Settled, id_in},
        window::{Plan, Source, Taken, Window},
    },
    calls::{call::Call, response::RawResponse, service::CallOptions},
    contract::wire,
    error::{
        call::{Error, Operation},
        outcome::Outcome,
    },
    http::{base_url, call_progress::CallProgress, retry::attempts::RetryPolicy},
    ledger::LedgerError,
    model::{Agent, CreateAgent},
    value::{AgentId, Json},
};

/// How many agents are created at the same time by default.
const CONCURRENCY: usize = 8;

/// Creates many agents: a value to configure and turn into a [stream](Self::stream).
///
/// Rows are taken from the iterator only as fast as results are taken from the stream, so the iterator may be
/// endless. Every row comes back exactly once, as one [`Creation`] with its index. A row that fails is one item
/// that holds an error; the others go on. A row that breaks the rules is never sent: its error holds every
/// violation, and has the outcome `NotSent`. [`CreateRow`] lists what a row can be.
///
/// ```no_run
/// use dealkit::{AgentProfile, CreateAgent};
///
/// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
/// let rows = ["ada@example.com", "grace@example.com"].map(|email| {
///     CreateAgent::builder()
///         .email(email)
///         .first_name("A")
///         .last_name("B")
///         .profile(AgentProfile::new())
///         .build()
/// });
/// let mut creations = client.agents().create_many(rows).stream();
/// while let Some(creation) = creations.next().await {
///     match &creation.result {
///         Ok(agent) => println!("row {}: created {}", creation.index, agent.id),
///         Err(error) => eprintln!("row {}: {}: {error}", creation.index, creation.outcome()),
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # Each create
///
/// follows the rules of [`Agents::create`](crate::Agents::create): it is retried only where it is certain that the
/// service did not act, and it obeys the client's rate limit.
///
#[doc = include_str!("../calls/create_outcomes.md")]
///
/// # When the service refuses the key
///
/// A 401 or 403 would most likely be the answer to every row, so it stops the job: the rows in flight are finished and handed
/// over, the next row that would be sent comes back with an error of kind [`Stopped`](crate::ErrorKind::Stopped) and the outcome
/// `NotSent`, and the stream ends. The rows after that one have not been taken from the iterator: go on from there.
///
/// # Stopping early
///
/// [`CreateStream::stop`] takes no more rows; those in flight still come back. [`CreateStream::cancel`] gives up
/// the rows in flight, and reports what is known of each. Merely dropping the stream cancels too, but reports
/// nothing, so a job that may be interrupted should call `cancel` itself:
///
/// ```no_run
/// # use dealkit::{CreateAgent, ValidationError};
/// # async fn example(
/// #     client: dealkit::Client,
/// #     rows: Vec<Result<CreateAgent, ValidationError>>,
/// #     interrupt: impl Future<Output = ()>, // such as tokio::signal::ctrl_c()
/// # ) {
/// let mut creations = client.agents().create_many(rows).stream();
/// let mut interrupt = std::pin::pin!(interrupt);
/// loop {
///     tokio::select! {
///         creation = creations.next() => match creation {
///             Some(creation) => println!("row {}: {}", creation.index, creation.outcome()),
///             None => break,
///         },
///         () = &mut interrupt => {
///             for creation in creations.cancel() {
///                 println!("row {}: {}", creation.index, creation.outcome()); // `unknown`: look before you send it again
///             }
///             break;
///         }
///     }
/// }
/// # }
/// ```
#[must_use = "nothing is created until the stream is read"]
pub struct CreateMany<I, T = Agent> {
    rows: I,
    plan: Plan,
    call: MakeCall<T>,
    /// The base URL that the ledger is bound to.
    service: String,
    recorder: Option<Recorder>,
    agent_id: AgentIdOf<T>,
}

/// Makes the call of one body.
type MakeCall<T> = Arc<dyn Fn(Bytes) -> Call<T> + Send + Sync>;

/// The agent's identifier, which the ledger records.
type AgentIdOf<T> = fn(&T) -> Option<String>;

/// One agent of many: which row it belongs to, and the result.
///
/// `Debug` shows no personal data.
#[non_exhaustive]
pub struct Creation<T = Agent> {
    /// The index of the row among those given, from 0.
    pub index: usize,
    /// The agent, or the error because of which no agent is known.
    pub result: Result<T, Error>,
    /// The row's key, if it has one.
    pub key: Option<String>,
    /// Whether this is the ledger's record from an earlier run, and nothing was sent: `result` is then an error of
    /// kind [`Recorded`](crate::ErrorKind::Recorded), even if the agent was created.
    pub recorded: bool,
    /// Why the outcome of the row could not be written to the ledger, if that failed. A later run then treats the
    /// outcome as unknown; this run sends no more rows.
    pub ledger_error: Option<LedgerError>,
    recorded_id: Option<AgentId>,
}

impl<T> Creation<T> {
    /// The outcome of the row: `Succeeded` if the agent was created, even if the response could not be read;
    /// otherwise the [outcome of the error](Error::outcome).
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(_) => Outcome::Succeeded,
            Err(error) => error.outcome(),
        }
    }

    /// The agent that an earlier run created, if the row is [recorded](Self::recorded). `None` if the response
    /// to that create could not be read.
    pub fn recorded_agent_id(&self) -> Option<&AgentId> {
        self.recorded_id.as_ref()
    }
}

impl Creation {
    /// The agent that was created, in this run or an earlier one.
    pub fn agent_id(&self) -> Option<&AgentId> {
        match &self.result {
            Ok(agent) => Some(&agent.id),
            Err(_) => self.recorded_agent_id(),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Creation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Creation")
            .field("index", &self.index)
            .field("result", &self.result)
            .field("recorded", &self.recorded)
            .finish_non_exhaustive()
    }
}

/// A row of a [`CreateMany`]: the request for an agent, or the error because of which there is none.
///
/// | made from | |
/// |---|---|
/// | [`CreateAgent`] | every rule is checked before it is sent, however it was built |
/// | [`Json`] | a body that is sent as it is, for services that accept more than the rules allow |
/// | a `Result` of these | such as the return value of [`build`](crate::CreateAgent::builder): an error becomes the row's error |
/// | `(key, row)` | a row with its key, for a [ledger](CreateMany::ledger) |
pub struct CreateRow {
    body: Result<Bytes, Error>,
    key: Option<String>,
}

impl CreateRow {
    /// A row made from the text of a JSON value, or from an error: for bindings, which write the JSON themselves.
    #[doc(hidden)]
    pub fn written(body: Result<Bytes, Error>) -> Self {
        Self { body, key: None }
    }

    /// Sets the key that identifies the row in a [ledger](CreateMany::ledger), in this run and the next.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl<K: Into<String>, R: Into<CreateRow>> From<(K, R)> for CreateRow {
    fn from((key, row): (K, R)) -> Self {
        row.into().key(key)
    }
}

impl From<CreateAgent> for CreateRow {
    fn from(request: CreateAgent) -> Self {
        Self::written(match request.validate() {
            Ok(()) => Ok(request.to_json().into_text().into()),
            Err(error) => Err(error.into()),
        })
    }
}

impl From<Json> for CreateRow {
    fn from(body: Json) -> Self {
        Self::written(Ok(body.into_text().into()))
    }
}

impl<R: Into<CreateRow>, E: Into<Error>> From<Result<R, E>> for CreateRow {
    fn from(row: Result<R, E>) -> Self {
        match row {
            Ok(row) => row.into(),
            Err(error) => Self::written(Err(error.into())),
        }
    }
}

impl fmt::Debug for CreateRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateRow").finish_non_exhaustive()
    }
}

impl<I> CreateMany<I> {
    pub(crate) fn new(
        rows: I,
        service: &Url,
        call: impl Fn(Bytes) -> Call<Agent> + Send + Sync + 'static,
    ) -> Self {
        Self {
            rows,
            plan: Plan::new(CONCURRENCY),
            call: Arc::new(call),
            service: base_url::normal(service),
            recorder: None,
            agent_id: |agent| Some(agent.id.to_string()),
        }
    }

    /// Makes every item come back with the raw response, whose body is left for the caller to read;
    /// see [`Call::raw_response`].
    pub fn raw_responses(self) -> CreateMany<I, RawResponse> {
        let call = self.call;
        CreateMany {
            rows: self.rows,
            plan: self.plan,
            call: Arc::new(move |body| call(body).raw_response()),
            service: self.service,
            recorder: self.recorder,
            agent_id: |response| id_in(response.body()),
        }
    }
}

impl<I, T: 'static> CreateMany<I, T> {
    /// Adds a header to each request; see [`Call::header`].
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (call, name, value) = (self.call, name.into(), value.into());
        self.call = Arc::new(move |body| call(body).header(&name, &value));
        self
    }
}

impl<I, T> CreateMany<I, T> {
    /// How many agents are created at the same time, at least one. Default: 8. Agents that were created and wait
    /// for their turn count too, so memory is bounded.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.plan.concurrency(concurrency);
        self
    }

    /// Yields the results as they arrive, instead of in the order of the rows.
    pub fn as_completed(mut self) -> Self {
        self.plan.as_completed = true;
        self
    }

    /// The maximum duration of each create, overriding the client's.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.plan.options.timeout = Some(total);
        self
    }

    /// What is retried, overriding the client's policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.plan.retry(policy);
        self
    }

    /// Keeps a ledger of the job in this file, so that the job survives a crash of the process or the machine: run
    /// again over the same rows, it creates only those that are new or were not sent. Each row needs a key of its own,
    /// the same in every run, and is therefore a pair `(key, row)`. `keys` names the kind of key, such as `"email"`. A
    /// job with another name for its keys is refused, because the ledger would recognise none of its rows and everybody
    /// would be created again. With `None`, nothing is compared.
    ///
    /// | the ledger's record of a row | the next run |
    /// |---|---|
    /// | none, or that it was not sent | sends it |
    /// | created | reports this, with the [agent's identifier](Creation::agent_id) |
    /// | rejected | reports this, with the status. A row that was rejected for a reason other than its content (a 401, 403, 404, 405, 407, 421, 425, 426, 429, or a redirect) is sent again. So is a rejected row that you have corrected, once you have [settled](crate::ledger::settle) that it has no agent |
    /// | unknown: an intent without an outcome, or an outcome that is unknown | reports this, and sends nothing: find out whether there is an agent and [settle](crate::ledger::settle) it, or use [`resend_unknown`](Self::resend_unknown) |
    ///
    /// A result from the ledger is [`recorded`](Creation::recorded), and is an error of kind
    /// [`Recorded`](crate::ErrorKind::Recorded) whose outcome says which of these cases it is. A row that breaks the
    /// rules is not entered in the ledger, so it is sent once it is corrected. If two rows have the same key, the
    /// second is an error of kind [`DuplicateKey`](crate::ErrorKind::DuplicateKey).
    ///
    /// ```no_run
    /// # struct Record { id: String, request: Result<dealkit::CreateAgent, dealkit::ValidationError> }
    /// # async fn example(client: dealkit::Client, records: Vec<Record>) -> Result<(), dealkit::Error> {
    /// use dealkit::Outcome;
    ///
    /// let rows = records.into_iter().map(|record| (record.id, record.request));
    /// let mut creations = client.agents().create_many(rows).ledger("agents.ndjson", "id")?.stream();
    /// while let Some(creation) = creations.next().await {
    ///     match (creation.outcome(), &creation.result) {
    ///         (Outcome::Succeeded, _) => println!("row {}: {:?}", creation.index, creation.agent_id()),
    ///         (_, Err(error)) => eprintln!("row {}: {error}", creation.index),
    ///         (_, Ok(_)) => {}
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # What is on disk
    ///
    /// Before the first byte of a request leaves, the record that its row is about to be sent (its intent) has reached
    /// the disk; requests that wait for this share one `fsync`. The outcome is written when the response has come,
    /// before it is handed over, and reaches the disk with the next intent, or when the stream is dropped. So a crash
    /// of the process loses nothing. A crash of the machine can lose the outcomes of the moments before it, and those
    /// rows are then `unknown`; it never loses the fact that a row was sent.
    ///
    /// Once the ledger can no longer be written (because the disk is full, for example), no more rows are sent:
    /// each is an error of kind [`Ledger`](crate::ErrorKind::Ledger). Rows in flight still come back, and say so
    /// if they [could not be recorded](Creation::ledger_error).
    ///
    /// # What is in the file
    ///
    /// One line of JSON for each intent and each outcome, with the time, the agent's identifier, the status and the
    /// request's id. Keys appear only as hashes (HMAC-SHA-256 with a salt unique to the file), so nobody reads an
    /// e-mail address from it by chance. But whoever has the file can find out whether a key that they guess is in
    /// it, because it contains the salt, too. So on Unix a new ledger is readable by its owner only; protect it as
    /// you protect the rows. The format is specified in `sdk/contract/ledger.md` in the repository.
    ///
    /// The file is read and locked by this method, on the calling thread. Memory use is about 150 bytes per key.
    ///
    /// # Errors
    /// If the file cannot be opened or written; if another job has it open, in this process or another; if it is the
    /// ledger of another service (a ledger whose service has a new name can be [moved](crate::ledger::move_to)); if its
    /// keys have another name; or if it is not a ledger at all.
    pub fn ledger<'a>(
        mut self,
        path: impl AsRef<Path>,
        keys: impl Into<Option<&'a str>>,
    ) -> Result<Self, LedgerError> {
        let recorder = Recorder::open(path.as_ref(), &self.service, keys.into())?;
        self.recorder = Some(recorder);
        Ok(self)
    }

    /// Sends again the rows that the [ledger](Self::ledger) has as unknown. If an earlier run did create the agent,
    /// there are then two.
    pub fn resend_unknown(mut self) -> Self {
        if let Some(recorder) = &mut self.recorder {
            recorder.resend_unknown();
        }
        self
    }

    /// Starts a stream; the first requests go out when it is first read.
    pub fn stream(self) -> CreateStream<I, T>
    where
        I: Iterator,
    {
        let (rows, in_flight) = self.into_source();
        CreateStream { rows, in_flight }
    }

    /// The rows, taken only while there is room for them, and the queue to push them to.
    pub(crate) fn into_source(self) -> (Source<I>, CreationsInFlight<T>)
    where
        I: Iterator,
    {
        let concurrency = self.plan.concurrency;
        let (rows, in_flight) = self.into_parts();
        (Source::new(rows, concurrency), in_flight)
    }

    /// The rows, and the queue to push them to one at a time; for a caller that cannot hand all of them over as an
    /// iterator.
    pub fn into_parts(self) -> (I, CreationsInFlight<T>) {
        let in_flight = CreationsInFlight {
            options: self.plan.options,
            call: self.call,
            window: Window::new(self.plan.as_completed),
            refusal: Arc::default(),
            recorder: self.recorder,
            agent_id: self.agent_id,
        };
        (self.rows, in_flight)
    }
}

impl<I, T> fmt::Debug for CreateMany<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateMany")
            .field("concurrency", &self.plan.concurrency)
            .field("as_completed", &self.plan.as_completed)
            .finish_non_exhaustive()
    }
}

/// The agents of a [`CreateMany`], each as one [`Creation`].
#[must_use = "nothing is created until the stream is read"]
pub struct CreateStream<I, T = Agent> {
    rows: Source<I>,
    in_flight: CreationsInFlight<T>,
}

impl<I, T> CreateStream<I, T>
where
    I: Iterator + Unpin,
    I::Item: Into<CreateRow>,
    T: Send + 'static,
{
    /// The result of the next row, or `None` after the last. The future is cancel safe: dropping it loses no row.
    pub async fn next(&mut self) -> Option<Creation<T>> {
        StreamExt::next(self).await
    }
}

impl<I, T: Send + 'static> CreateStream<I, T> {
    /// Takes no more rows from the iterator. Rows in flight still come back.
    pub fn stop(&mut self) {
        self.rows.end();
    }

    /// Gives up the rows in flight and returns, in order, each row that was taken from the iterator but not
    /// handed over; see [`CreationsInFlight::cancel`].
    pub fn cancel(mut self) -> Vec<Creation<T>> {
        self.in_flight.cancel()
    }
}

impl<I, T> Stream for CreateStream<I, T>
where
    I: Iterator + Unpin,
    I::Item: Into<CreateRow>,
    T: Send + 'static,
{
    type Item = Creation<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Creation<T>>> {
        let this = &mut *self;
        while let Some(row) = this.rows.next(this.in_flight.len()) {
            this.in_flight.push(row);
            if this.in_flight.refusal().has_stopped() {
                this.rows.end();
            }
        }
        this.in_flight.poll_next_unpin(context)
    }
}

impl<I, T> fmt::Debug for CreateStream<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateStream")
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// The creates in flight, from which a [`CreateStream`] takes its items. For callers that hand rows over one at a
/// time instead of as an iterator; see [`CreateMany::into_parts`].
///
/// It is a stream that ends whenever nothing is in flight, and resumes after the next `push`.
#[must_use = "nothing is created until it is read"]
pub struct CreationsInFlight<T = Agent> {
    options: CallOptions,
    call: MakeCall<T>,
    window: Window<Creating<T>>,
    refusal: Arc<Refusal>,
    /// Declared after the creates in flight, because these record their outcomes when they are dropped.
    recorder: Option<Recorder>,
    agent_id: AgentIdOf<T>,
}

impl<T: Send + 'static> CreationsInFlight<T> {
    /// Adds a row to those in flight. It is up to the caller to bound their number.
    pub fn push(&mut self, row: impl Into<CreateRow>) {
        self.push_with(row, Call::send);
    }

    /// Adds a row to those in flight, and uses `send` to send it: with an extra header, say, or within a span.
    /// `send` is not called for a row that is not sent.
    pub fn push_with<F>(&mut self, row: impl Into<CreateRow>, send: impl FnOnce(Call<T>) -> F)
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let index = self.window.next_index();
        let CreateRow { body, key } = row.into();
        let mut row = Row {
            index,
            ..Row::default()
        };
        let decision = match &mut self.recorder {
            Some(recorder) => recorder.decide(key.as_deref(), index),
            None => Decision::Send(None),
        };
        row.key = key;
        let to_send = match decision {
            Decision::Send(recording) => {
                row.is_in_doubt = recording
                    .as_ref()
                    .is_some_and(|recording| recording.is_in_doubt);
                body.map(|body| (body, recording))
            }
            Decision::Recorded(error, id) => {
                row.is_recorded = true;
                row.recorded_id = id;
                Err(error)
            }
            Decision::Refused(error) => Err(error),
        };
        // What the ledger knows of the row is not forgotten, and its own error takes precedence.
        let to_send = to_send.and_then(|to_send| match self.refusal.refuse() {
            Some(error) => Err(error),
            None => Ok(to_send),
        });
        let (progress, call): (_, BoxFuture<'static, _>) = match to_send {
            Ok((body, recording)) => {
                let call = (self.call)(body).options(self.options);
                let progress = call.progress();
                let call = match recording {
                    Some(recording) => {
                        let sent = send(call.before_sending(recording.intend()));
                        recording
                            .call(Arc::clone(&progress), self.agent_id, sent)
                            .boxed()
                    }
                    None => send(call).map(|result| (result, None)).boxed(),
                };
                (progress, call)
            }
            Err(error) => {
                let error = error.after_doubt(row.is_in_doubt);
                let error = error.with_operation(&operation());
                row.is_settled = true;
                (Arc::default(), done((Err(error), None)).boxed())
            }
        };
        self.window.push(Creating {
            row,
            progress,
            call,
            refusal: Arc::clone(&self.refusal),
        });
    }

    /// The result of the next row, or `None` when nothing is in flight.
    pub async fn next(&mut self) -> Option<Creation<T>> {
        StreamExt::next(self).await
    }

    /// Gives up the rows in flight and returns, in order, each row that was pushed but not handed over.
    ///
    /// If its response has come, a row has the agent or the error. Otherwise it has an error of kind `Cancelled`,
    /// whose outcome says how far the create had come: `NotSent` or `Rejected` if there is certainly no agent,
    /// `Unknown` if the service may have made one, and `Succeeded` if the service said so but the agent was still on
    /// its way.
    ///
    /// On a Tokio runtime, this includes responses that have come since the stream was last read.
    pub fn cancel(&mut self) -> Vec<Creation<T>> {
        let taken = self.window.empty().into_iter();
        let creations = taken.map(|row| match row {
            Taken::Came(creation) => creation,
            Taken::InFlight(creating) => creating.cancelled(),
        });
        creations.collect()
    }
}

impl<T> CreationsInFlight<T> {
    /// Whether the service has refused the key, so that rows are no longer sent.
    #[doc(hidden)]
    pub fn refusal(&self) -> &Arc<Refusal> {
        &self.refusal
    }

    /// How many rows were pushed but not yet handed over.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Send + 'static> Stream for CreationsInFlight<T> {
    type Item = Creation<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Creation<T>>> {
        self.window.poll_next_unpin(context)
    }
}

impl<T> fmt::Debug for CreationsInFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreationsInFlight")
            .field("in_flight", &self.len())
            .finish_non_exhaustive()
    }
}

/// Whether the service has refused the key of a job, after which no row is sent.
#[derive(Debug, Default)]
pub struct Refusal {
    /// The first row that was refused, and the status.
    first: OnceLock<(usize, StatusCode)>,
    /// Whether a row was not sent because of it.
    has_stopped: AtomicBool,
}

impl Refusal {
    /// Whether a row was not sent for this reason, so that there is no use in taking another.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::Acquire)
    }

    /// The error of a row that would be sent now, if it must not be.
    fn refuse(&self) -> Option<Error> {
        let first = *self.first.get()?;
        self.has_stopped.store(true, Ordering::Release);
        Some(Error::stopped(first))
    }

    /// Learns from the result of the row with this index.
    fn learn<T>(&self, index: usize, result: &Result<T, Error>) {
        let Err(error) = result else { return };
        if let Some(status) = error.status()
            && (error.is_authentication() || error.is_permission_denied())
        {
            // Later ones change nothing.
            let _ = self.first.set((index, status));
        }
    }
}

/// A row in flight, which tracks how far it has come.
struct Creating<T> {
    row: Row,
    progress: Arc<CallProgress>,
    call: BoxFuture<'static, Settled<T>>,
    refusal: Arc<Refusal>,
}

/// What is known of a row before it is sent.
#[derive(Default)]
struct Row {
    index: usize,
    key: Option<String>,
    /// Whether its outcome is already known.
    is_settled: bool,
    is_recorded: bool,
    recorded_id: Option<AgentId>,
    /// Whether an earlier run may have created the agent.
    is_in_doubt: bool,
}

impl Row {
    fn settled<T>(&mut self, (result, ledger_error): Settled<T>) -> Creation<T> {
        Creation {
            index: self.index,
            result,
            key: self.key.take(),
            recorded: self.is_recorded,
            ledger_error,
            recorded_id: self.recorded_id.take(),
        }
    }
}

impl<T> Creating<T> {
    /// What is known of the row, now that it is given up.
    fn cancelled(mut self) -> Creation<T> {
        // The response may have come since the future was last polled. Polling one that has not been sent yet could
        // send it, and without a runtime none can be polled.
        let is_worth_a_look = self.row.is_settled
            || (self.progress.is_response_due() && Handle::try_current().is_ok());
        let came = is_worth_a_look.then(|| (&mut self.call).now_or_never());
        let settled = came.flatten().unwrap_or_else(|| {
            let error = Error::cancelled(self.progress.outcome(), self.progress.attempts());
            let error = error.after_doubt(self.row.is_in_doubt);
            (Err(error.with_operation(&operation())), None)
        });
        self.row.settled(settled)
    }
}

impl<T> Future for Creating<T> {
    type Output = Creation<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Creation<T>> {
        let settled = ready!(self.call.as_mut().poll(context));
        self.refusal.learn(self.row.index, &settled.0);
        Poll::Ready(self.row.settled(settled))
    }
}

/// The operation of every row.
fn operation() -> Operation {
    Operation {
        method: http::Method::POST,
        template: wire::AGENTS_PATH.into(),
    }
}
