//! Creating many agents, a bounded number at a time.

use std::{
    fmt,
    future::Future,
    path::Path,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready as done},
};
use http::StatusCode;
use tokio::runtime::Handle;

use crate::{
    bulk::{
        many::{Bulk, BulkStream, Stop, Work, sealed},
        recorder::{Decision, Recorder, Settled, id_in},
        row::{CreateRow, Creation},
    },
    calls::{
        agents::Agents,
        call::{Async, Call},
        options::CallOptions,
        response::RawResponse,
    },
    contract::wire,
    error::call::{Error, Operation},
    http::{base_url, call_progress::CallProgress},
    ledger::LedgerError,
    model::Agent,
    value::AgentId,
};

/// How many agents are created at the same time by default.
const CONCURRENCY: usize = 8;

/// Creates many agents: a value to configure and turn into a [stream](Bulk::stream).
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
/// [`stop`](BulkStream::stop) takes no more rows; those in flight still come back. [`cancel`](BulkStream::cancel) gives up
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
pub type CreateMany<I, T = Agent, M = Async> = Bulk<I, Creates<T>, M>;

/// The agents of a [`CreateMany`], each as one [`Creation`].
pub type CreateStream<I, T = Agent> = BulkStream<I, Creates<T>>;

/// The work of a [`CreateMany`]: it creates an agent for each row.
pub struct Creates<T = Agent> {
    agents: Agents,
    call: fn(&Agents, Bytes) -> Call<T>,
    /// The agent's identifier, which the ledger records.
    agent_id: fn(&T) -> Option<String>,
    /// The base URL that the ledger is bound to.
    service: String,
    refusal: Arc<Refusal>,
    recorder: Option<Recorder>,
}

impl<M: Clone> Agents<M> {
    /// Creates many agents, some at a time; see [`CreateMany`].
    pub fn create_many<I>(&self, rows: I) -> CreateMany<I::IntoIter, Agent, M>
    where
        I: IntoIterator,
        I::Item: Into<CreateRow>,
    {
        let work = Creates {
            agents: self.awaited(),
            call: |agents, body| agents.create_written(body),
            agent_id: |agent| Some(agent.id.to_string()),
            service: base_url::normal(&self.service.base_url),
            refusal: Arc::default(),
            recorder: None,
        };
        Bulk::new(rows.into_iter(), CONCURRENCY, work, self.mode.clone())
    }
}

impl<I, M> CreateMany<I, Agent, M> {
    /// Makes every item come back with the raw response, whose body is left for the caller to read;
    /// see [`Call::raw_response`].
    pub fn raw_responses(self) -> CreateMany<I, RawResponse, M> {
        self.map(|work| Creates {
            agents: work.agents,
            call: |agents, body| agents.create_written(body).raw_response(),
            agent_id: |response| id_in(response.body()),
            service: work.service,
            refusal: work.refusal,
            recorder: work.recorder,
        })
    }
}

impl<I, T, M> CreateMany<I, T, M> {
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
        let recorder = Recorder::open(path.as_ref(), &self.work.service, keys.into())?;
        self.work.recorder = Some(recorder);
        Ok(self)
    }

    /// Sends again the rows that the [ledger](Self::ledger) has as unknown. If an earlier run did create the agent,
    /// there are then two.
    pub fn resend_unknown(mut self) -> Self {
        if let Some(recorder) = &mut self.work.recorder {
            recorder.resend_unknown();
        }
        self
    }
}

impl<T> fmt::Debug for Creates<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Creates").finish_non_exhaustive()
    }
}

impl<T> sealed::Sealed for Creates<T> {}

impl<T: Send + 'static> Work for Creates<T> {
    type Input = CreateRow;
    type Value = T;
    type Item = Creation<T>;
    type Running = Creating<T>;

    fn begin<F>(
        &mut self,
        index: usize,
        row: CreateRow,
        options: &CallOptions,
        stop: &Stop,
        send: impl FnOnce(Call<T>) -> F,
    ) -> Creating<T>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let CreateRow { body, key } = row;
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
        let to_send = to_send.and_then(|to_send| match self.refusal.error() {
            Some(error) => {
                stop.set();
                Err(error)
            }
            None => Ok(to_send),
        });
        let (progress, call): (_, BoxFuture<'static, _>) = match to_send {
            Ok((body, recording)) => {
                let call = (self.call)(&self.agents, body).options(options.clone());
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
        Creating {
            row,
            progress,
            call,
            refusal: Arc::clone(&self.refusal),
        }
    }

    fn given_up(creating: Creating<T>) -> Option<Creation<T>> {
        Some(creating.cancelled())
    }
}

/// Whether the service has refused the key, after which no row is sent.
#[derive(Debug, Default)]
struct Refusal(OnceLock<(usize, StatusCode)>);

impl Refusal {
    /// The error of a row that would be sent now, if it must not be.
    fn error(&self) -> Option<Error> {
        self.0.get().copied().map(Error::stopped)
    }

    /// Learns from the result of the row with this index.
    fn learn<T>(&self, index: usize, result: &Result<T, Error>) {
        let Err(error) = result else { return };
        if let Some(status) = error.status()
            && (error.is_authentication() || error.is_permission_denied())
        {
            // Later ones change nothing.
            let _ = self.0.set((index, status));
        }
    }
}

/// A row in flight, which tracks how far it has come.
pub struct Creating<T> {
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
        let may_have_ended = self.row.is_settled
            || (self.progress.is_response_due() && Handle::try_current().is_ok());
        let ended = may_have_ended.then(|| (&mut self.call).now_or_never());
        let settled = ended.flatten().unwrap_or_else(|| {
            let error = Error::cancelled(self.progress.outcome(), self.progress.attempts());
            let error = error.after_doubt(self.row.is_in_doubt);
            (Err(error.with_operation(&operation())), None)
        });
        self.row.settled(settled)
    }
}

impl<T> fmt::Debug for Creating<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Creating").finish_non_exhaustive()
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
