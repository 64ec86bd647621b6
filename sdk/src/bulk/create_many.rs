//! The creation of many agents, a limited number at a time.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
#[cfg(feature = "ledger")]
use futures_util::future::{MaybeDone, maybe_done};
use futures_util::{
    FutureExt as _, Stream, StreamExt as _, TryFutureExt as _,
    future::{BoxFuture, ready as completed},
};
use tokio::runtime::Handle;

#[cfg(feature = "ledger")]
use crate::bulk::{
    create_with_ledger::{CreateWithLedger, LedgerOptions},
    job_ledger::JobLedger,
};
use crate::{
    bulk::{
        many::{Bulk, BulkOperation, CancelHandle, JobState, Results, sealed},
        row::{CreateRow, Creation, RowProgress},
        window::Indexed,
    },
    calls::{
        agents::Agents,
        call::{Async, Call},
        options::CallOptions,
        response::{RawResponse, find_id},
    },
    error::{call::Error, kind::ErrorKind},
    model::Agent,
    value::opaque_debug,
};

/// The default number of creates in flight. If a create takes 100 ms, 32 creates in flight make a million agents in under an
/// hour. A service that accepts fewer creates at a time rejects the rest without acting, and the rate limiter then slows the
/// job down: in tests with a limit of 4, no row was lost with 8, 16, 32 or 64 creates in flight. After a crash, the outcome of
/// every row in flight is unknown. So a higher number would leave more rows to look up.
const DEFAULT_CONCURRENCY: usize = 32;

/// A job that creates many agents: configure it, then turn it into a [stream](CreateMany::stream).
///
/// The iterator is consumed only as fast as you take results, so it may be infinite. Every row is returned exactly once, as one
/// [`Creation`] with its index. If a row fails, its item has an error, and the other rows continue. A row that breaks the rules
/// is never sent: its error lists every violation, and has the outcome `NotSent`. [`CreateRow`] lists the types that a row can
/// have.
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
///         Ok(_) => println!("row {}: created {:?}", creation.index, creation.agent_id()),
///         Err(error) => eprintln!("row {}: {}: {error}", creation.index, creation.outcome()),
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # Each create
///
/// behaves like [`Agents::create`](crate::Agents::create): it is retried only if the service certainly did not act, and
/// it obeys the client's rate limit.
///
#[doc = include_str!("../calls/create_outcomes.md")]
///
/// # When the service rejects the service key
///
/// After a 401 or 403, every later row would most likely get the same response. So the job stops: the rows in flight complete,
/// each row already taken gets an error of kind [`Stopped`](crate::ErrorKind::Stopped) and the outcome `NotSent`, and the stream
/// ends. Later rows have not been taken from the iterator: continue from the first row that was not sent.
///
/// # When no connection can be made
///
/// The job goes through all rows, and each fails with the outcome `NotSent` after its own retries. A long job should
/// [`stop`](CreateStream::stop) after several such errors in a row.
///
/// # Stopping early
///
/// [`stop`](CreateStream::stop) takes no more rows; rows in flight still complete. [`cancel`](CreateStream::cancel)
/// abandons the rows in flight, and returns the known outcome of each. Merely dropping the stream cancels too, but
/// returns nothing. So a job that may be interrupted should stop first, which leaves no outcome unknown, and cancel only when
/// it is interrupted again. A [`CancelHandle`] does both from another task, and has an example for Ctrl-C.
pub type CreateMany<I, T = Agent, M = Async> = Bulk<I, CreateOperation<T>, M>;

/// The agents of a [`CreateMany`], each as one [`Creation`].
#[must_use = "nothing is sent until the stream is read"]
pub struct CreateStream<I, T: Send + 'static = Agent>(Results<I, CreateOperation<T>>);

/// The operation of a [`CreateMany`]: creates an agent for each row.
pub struct CreateOperation<T = Agent> {
    pub(crate) agents: Agents,
    make_call: fn(&Agents, Bytes) -> Call<T>,
    /// Returns the agent's identifier, which the ledger records.
    #[cfg_attr(
        not(feature = "ledger"),
        expect(dead_code, reason = "there is no ledger")
    )]
    get_agent_id: fn(&T) -> Option<String>,
    #[cfg(feature = "ledger")]
    pub(crate) ledger: Option<JobLedger>,
    /// The future that closes the ledger. `None` until the job begins to close the ledger.
    #[cfg(feature = "ledger")]
    close_future: Option<MaybeDone<BoxFuture<'static, ()>>>,
    #[cfg(feature = "ledger")]
    pub(crate) ledger_options: LedgerOptions,
}

impl<M: Clone> Agents<M> {
    /// Creates many agents, a limited number at a time; see [`CreateMany`].
    #[doc(alias("import", "batch"))]
    pub fn create_many<I>(&self, rows: I) -> CreateMany<I::IntoIter, Agent, M>
    where
        I: IntoIterator,
        I::Item: Into<CreateRow>,
    {
        let operation = CreateOperation {
            agents: self.to_async(),
            make_call: |agents, body| agents.create_from_text(body),
            get_agent_id: |agent| Some(agent.id.to_string()),
            #[cfg(feature = "ledger")]
            ledger: None,
            #[cfg(feature = "ledger")]
            close_future: None,
            #[cfg(feature = "ledger")]
            ledger_options: LedgerOptions::default(),
        };
        Bulk::new(
            rows.into_iter(),
            DEFAULT_CONCURRENCY,
            operation,
            self.mode.clone(),
        )
    }
}

impl<I, T: Send + 'static> CreateMany<I, T> {
    /// Starts a stream; the first requests are sent when it is first read.
    pub fn stream(self) -> CreateStream<I, T>
    where
        I: Iterator,
    {
        CreateStream(self.into_results())
    }
}

impl<I, M> CreateMany<I, Agent, M> {
    /// Returns every item with the raw response, whose body you read yourself; see [`Call::raw_response`].
    pub fn raw_responses(self) -> CreateMany<I, RawResponse, M> {
        self.map_operation(|operation| CreateOperation {
            agents: operation.agents,
            make_call: |agents, body| agents.create_from_text(body).raw_response(),
            get_agent_id: |response| find_id(response.body()),
            #[cfg(feature = "ledger")]
            ledger: operation.ledger,
            #[cfg(feature = "ledger")]
            close_future: operation.close_future,
            #[cfg(feature = "ledger")]
            ledger_options: operation.ledger_options,
        })
    }
}

impl<I, T> CreateStream<I, T>
where
    I: Iterator<Item: Into<CreateRow>> + Unpin,
    T: Send + 'static,
{
    /// Returns the next result, or `None` after the last one. The future is cancel safe: dropping it loses no result.
    pub async fn next(&mut self) -> Option<Creation<T>> {
        self.0.next().await
    }
}

impl<I, T: Send + 'static> CreateStream<I, T> {
    /// Returns a handle that stops or cancels the job from another task, while this task waits for the next result; see
    /// [`CancelHandle`].
    pub fn cancel_handle(&self) -> CancelHandle {
        self.0.cancel_handle()
    }

    /// Takes no more rows from the iterator. The results of the rows in flight still arrive.
    pub fn stop(&mut self) {
        self.0.inputs.end_iteration();
    }

    /// Cancels the creates in flight. Returns, in order, the known results of all rows that were taken from the iterator and
    /// not returned yet; see [`InFlight::cancel`](crate::bulk::InFlight::cancel).
    ///
    /// With a [ledger](CreateMany::ledger), this waits until the outcome of each row is recorded and the ledger is closed,
    /// without blocking the runtime. Await this future to its end, or the results are lost.
    pub async fn cancel(self) -> Vec<Creation<T>> {
        self.0.cancel().await
    }
}

impl<I, T> Stream for CreateStream<I, T>
where
    I: Iterator<Item: Into<CreateRow>> + Unpin,
    T: Send + 'static,
{
    type Item = Creation<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Creation<T>>> {
        self.0.poll_next_unpin(context)
    }
}

impl<I, T: Send + 'static> fmt::Debug for CreateStream<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateStream").finish_non_exhaustive()
    }
}

opaque_debug!(CreateOperation<T>);

impl<T> sealed::Sealed for CreateOperation<T> {}

impl<T: Send + 'static> BulkOperation for CreateOperation<T> {
    type Input = CreateRow;
    type Value = T;
    type Item = Creation<T>;
    type Running = RunningCreate<T>;

    fn fail(index: usize, row: Self::Input, error: Error) -> Creation<T> {
        Creation::not_sent(index, error).with_key(row.key)
    }

    #[cfg(feature = "ledger")]
    fn capacity(&self, concurrency: usize) -> usize {
        match self.ledger {
            Some(_) => concurrency.saturating_mul(2),
            None => concurrency,
        }
    }

    fn start<F>(
        &mut self,
        index: usize,
        row: CreateRow,
        options: &CallOptions,
        job: &JobState,
        send: impl FnOnce(Call<T>) -> F + Send + 'static,
    ) -> RunningCreate<T>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let CreateRow { body, key, label } = row;
        #[cfg(not(feature = "ledger"))]
        drop(label);
        let call = body.map(|body| (self.make_call)(&self.agents, body).options(options.clone()));
        let progress = Arc::new(RowProgress::new(
            call.as_ref().map(Call::progress).unwrap_or_default(),
        ));
        let recorder = job.clone();
        let send =
            move |call| send(call).inspect_err(move |error| recorder.record_error(index, error));
        let start = || -> Result<BoxFuture<'static, Creation<T>>, Error> {
            #[cfg(feature = "ledger")]
            if let Some(ledger) = &mut self.ledger {
                let create = CreateWithLedger {
                    key: ledger.look_up(key.as_deref(), label, index)?,
                    options: self.ledger_options.clone(),
                    index,
                    call,
                    get_agent_id: self.get_agent_id,
                    progress: Arc::clone(&progress),
                    job: job.clone(),
                };
                return Ok(create.run(send).boxed());
            } else if self.ledger_options.is_any_set() {
                return Err(Error::config(
                    "not sent: resolve, resend_unknown, resend_corrected and wait_in_flight need a ledger",
                ));
            }
            if key.is_some() {
                return Err(Error::config(
                    "not sent: this row has an idempotency key, but the job has no ledger: set the job's ledger, or remove \
                     the key",
                ));
            }
            // The row's own error takes precedence over the job's.
            let call = call.and_then(|call| job.stop_if_rejected().map_or(Ok(call), Err))?;
            progress.set_has_effects(true);
            let send_future = send(call).map(move |result| Creation::from_result(index, result));
            Ok(send_future.boxed())
        };
        let future =
            start().unwrap_or_else(|error| completed(Creation::not_sent(index, error)).boxed());
        RunningCreate {
            index,
            key,
            progress,
            future,
            creation: None,
            job: job.clone(),
        }
    }

    async fn cancel(&mut self, mut running: Indexed<RunningCreate<T>>) -> Indexed<Creation<T>> {
        for (_, create) in &mut running {
            create.cancel();
        }
        #[cfg(feature = "ledger")]
        if let Some(ledger) = &self.ledger {
            // Waits until the results that have arrived are durable.
            ledger.finish().await;
        }
        let mut creations = Indexed::with_capacity(running.len());
        #[cfg(feature = "ledger")]
        let mut all_progress = Vec::with_capacity(running.len());
        for (index, create) in running {
            #[cfg(feature = "ledger")]
            all_progress.push(Arc::clone(&create.progress));
            creations.push((index, create.into_creation()));
        }
        // Dropping the futures of the other rows has started to record their outcomes.
        #[cfg(feature = "ledger")]
        for ((_, creation), progress) in creations.iter_mut().zip(all_progress) {
            if let Some(record) = progress.take_last_record() {
                creation.ledger_error = record.await.err();
            }
        }
        creations
    }

    #[cfg(feature = "ledger")]
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(ledger) = &mut self.ledger else {
            return Poll::Ready(());
        };
        // The closed ledger stays in `self.ledger`, because a row that is pushed later must not be sent without a ledger.
        let close_future = self
            .close_future
            .get_or_insert_with(|| maybe_done(ledger.close()));
        close_future.poll_unpin(context)
    }
}

/// A row in flight.
pub struct RunningCreate<T> {
    index: usize,
    key: Option<String>,
    progress: Arc<RowProgress>,
    future: BoxFuture<'static, Creation<T>>,
    /// The result, if it arrived while the row was being cancelled.
    creation: Option<Creation<T>>,
    job: JobState,
}

impl<T> RunningCreate<T> {
    /// Cancels the row, and takes its result if the response has arrived.
    fn cancel(&mut self) {
        self.progress.cancel();
        // The response may have arrived since the future was last polled. Polling a future that waits for a response sends
        // nothing, but needs a runtime.
        let may_have_response =
            self.progress.call.is_response_due() && Handle::try_current().is_ok();
        self.poll_result(may_have_response);
    }

    /// Polls the future once, unless polling could send a request or run the caller's `resolve`.
    fn poll_result(&mut self, may_have_response: bool) {
        let has_no_effects = !self.progress.has_effects() || may_have_response;
        if has_no_effects && self.creation.is_none() {
            self.creation = self.now_or_never();
        }
    }

    /// Returns the result of the cancelled row, or else an error with its outcome so far.
    fn into_creation(mut self) -> Creation<T> {
        // A response that arrives this late is ignored, because its outcome would have to be recorded first.
        self.poll_result(false);
        self.creation.take().unwrap_or_else(|| {
            let call = &self.progress.call;
            let error = Error::cancelled(call.outcome(), call.attempts());
            let may_exist = self.progress.may_exist();
            Creation {
                key: self.key.take(),
                ..Creation::not_sent(self.index, error.with_earlier_unknown_outcome(may_exist))
            }
        })
    }
}

opaque_debug!(RunningCreate<T>);

impl<T> Future for RunningCreate<T> {
    type Output = Creation<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Creation<T>> {
        let creation = ready!(self.future.as_mut().poll(context));
        // If the ledger fails for this row, later rows could not be recorded either.
        if let Err(error) = &creation.result
            && error.kind() == ErrorKind::Ledger
        {
            self.job.stop();
        }
        let key = self.key.take();
        Poll::Ready(Creation { key, ..creation })
    }
}

/// The future is boxed, so moving this value does not move it.
impl<T> Unpin for RunningCreate<T> {}
