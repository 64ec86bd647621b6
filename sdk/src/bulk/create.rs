//! Creating many agents, a limited number at a time.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
#[cfg(feature = "ledger")]
use futures_util::future::{MaybeDone, maybe_done};
use futures_util::{
    FutureExt as _, TryFutureExt as _,
    future::{BoxFuture, ready as done},
};
use tokio::runtime::Handle;

#[cfg(feature = "ledger")]
use crate::{
    bulk::recorder::{Recorder, Resolve, Rules},
    transport::base_url,
};
use crate::{
    bulk::{
        many::{Bulk, BulkStream, Job, Work, sealed},
        row::{Course, CreateRow, Creation, id_in},
        window::Indexed,
    },
    calls::{
        agents::Agents,
        call::{Async, Call},
        options::CallOptions,
        response::RawResponse,
    },
    error::{call::Error, kind::ErrorKind},
    model::Agent,
    value::opaque_debug,
};

/// How many agents are created at the same time by default. At 100 ms a create, each makes ten rows a second, so this many make a
/// million in under an hour. A service that takes fewer at once rejects the others without acting, and the rate limiter adapts: with a
/// limit of 4, no row was lost with 8, 16, 32 or 64 in flight. More would leave people more to look up: after a crash, every row
/// that was in flight is unknown.
const CONCURRENCY: usize = 32;

/// Creates many agents: a value to configure and turn into a [stream](Bulk::stream).
///
/// The iterator is consumed only as fast as you take results, so it may be infinite. Every row comes back exactly once,
/// as one [`Creation`] with its index. A row that fails is one item with an error; the others continue. A row that
/// breaks the rules is never sent: its error has every violation, and the outcome `NotSent`. [`CreateRow`] lists what a
/// row can be.
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
/// # When the service refuses the key
///
/// Every row would most likely get the same 401 or 403, so it stops the job: the rows in flight finish and come back,
/// the next row comes back with an error of kind [`Stopped`](crate::ErrorKind::Stopped) and the outcome `NotSent`, and
/// the stream ends. Later rows have not been taken from the iterator: continue from there.
///
/// # Stopping early
///
/// [`stop`](BulkStream::stop) takes no more rows; those in flight still come back. [`cancel`](BulkStream::cancel)
/// abandons the rows in flight, and reports what is known about each. Merely dropping the stream cancels too, but
/// reports nothing, so a job that may be interrupted should call `cancel`:
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
///             for creation in creations.cancel().await {
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
    #[cfg_attr(
        not(feature = "ledger"),
        expect(dead_code, reason = "there is no ledger")
    )]
    agent_id: fn(&T) -> Option<String>,
    #[cfg(feature = "ledger")]
    recorder: Option<Recorder>,
    /// The end of the ledger's thread, once it is awaited.
    #[cfg(feature = "ledger")]
    ending: Option<MaybeDone<BoxFuture<'static, ()>>>,
    #[cfg(feature = "ledger")]
    rules: Rules,
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
            #[cfg(feature = "ledger")]
            recorder: None,
            #[cfg(feature = "ledger")]
            ending: None,
            #[cfg(feature = "ledger")]
            rules: Rules::default(),
        };
        Bulk::new(rows.into_iter(), CONCURRENCY, work, self.mode.clone())
    }
}

impl<I, M> CreateMany<I, Agent, M> {
    /// Returns every item with the raw response, whose body you read yourself; see [`Call::raw_response`].
    pub fn raw_responses(self) -> CreateMany<I, RawResponse, M> {
        self.map(|work| Creates {
            agents: work.agents,
            call: |agents, body| agents.create_written(body).raw_response(),
            agent_id: |response| id_in(response.body()),
            #[cfg(feature = "ledger")]
            recorder: work.recorder,
            #[cfg(feature = "ledger")]
            ending: work.ending,
            #[cfg(feature = "ledger")]
            rules: work.rules,
        })
    }
}

#[cfg(feature = "ledger")]
impl<I, T, M> CreateMany<I, T, M> {
    /// Keeps a ledger of the job, so that it survives a crash of the process or the machine: run it again with the same
    /// rows, and it creates only those that are new or were not sent. Each row needs its own key, the same in every
    /// run, and so is a pair `(key, row)`. `keys` names the keys, such as `"email"`. A job whose keys have another name
    /// is rejected, because the ledger would recognise none of its rows, and every agent would be created again. With
    /// `None`, names are not compared.
    ///
    /// | the ledger's record of a row | the next run |
    /// |---|---|
    /// | none, or that there is no agent | sends it |
    /// | created | reports this, as [`Created::Already`](crate::Created::Already), with the agent's identifier |
    /// | rejected | reports this, with the status. A row that was rejected for a reason other than its content (a 401, 403, 404, 405, 407, 421, 425, 426, 429, or a redirect) is sent again. So is a rejected row that you have corrected, once you have [resolved](crate::ledger::Ledger::resolve) that it has no agent |
    /// | unknown: it was about to be sent, and nothing else was recorded, or an outcome that is unknown | reports this, and sends nothing: find out whether there is an agent and [resolve](crate::ledger::Ledger::resolve) it, or have [`resolve`](CreateMany::resolve) find out; [`resend_unknown`](Self::resend_unknown) sends it all the same |
    /// | another job is sending it now | reports this ([`Error::is_in_flight`]), and sends nothing; or [waits](Self::wait_in_flight) for that job |
    ///
    /// The other results from the ledger are errors of kind [`AlreadyAttempted`](crate::ErrorKind::AlreadyAttempted), whose outcome
    /// tells these cases apart. Rows that break the rules are not recorded, so they are sent once corrected. If two
    /// rows have the same key, the second is an error of kind [`DuplicateKey`](crate::ErrorKind::DuplicateKey).
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
    /// }
    /// # }
    /// ```
    ///
    /// # What is on disk
    ///
    /// Before the first byte of a request leaves, the row's claim has reached the disk; and before a result is handed over,
    /// so has its outcome. Rows that wait for this share one transaction, and while an outcome is being written, another row
    /// is already sent in its place. So a crash loses nothing: the rows that were in flight are unknown, and no others.
    ///
    /// Once the ledger can no longer be written (because the disk is full, or the file was moved), no more rows are taken
    /// from the iterator: those that were are errors of kind [`Ledger`](crate::ErrorKind::Ledger). Rows in flight still
    /// come back, and say so if they [could not be recorded](Creation::ledger_error).
    ///
    /// # What is in the file
    ///
    /// For each row, its state, the agent's identifier, the status, the request's id, and times. Keys appear only as
    /// hashes (BLAKE2b with a salt unique to the file), so a reader will not come across an e-mail address in it by
    /// chance. But anyone who has the file can check whether a key that they guess is in it, because it contains the
    /// salt too. So on Unix, only its owner can read a new ledger; protect it like the rows. The schema is specified in
    /// `sdk/contract/ledger.md` in the repository.
    ///
    /// A separate thread has the file open, and looks up each row in it. Each row of the job takes 30 bytes of memory,
    /// used to find rows with the same key.
    ///
    /// # Errors
    /// The ledger is opened, and created if it does not exist, when the first row needs it. If it cannot be opened or
    /// written, is that of another service, has keys with another name, or is not a ledger at all, that is the row's
    /// error, and no further rows are taken.
    pub fn ledger<'a>(
        mut self,
        ledger: &crate::ledger::Ledger,
        keys: impl Into<Option<&'a str>>,
    ) -> Self {
        let service = base_url::normalize(&self.work.agents.service.base_url);
        self.work.recorder = Some(Recorder::new(ledger, service, keys.into()));
        self
    }

    /// Sends rows that the [ledger](Self::ledger) has as unknown again, without looking them up. If an earlier run did
    /// create the agent, there are then two; [`resolve`](Self::resolve) looks first.
    pub fn resend_unknown(mut self) -> Self {
        self.work.rules.resends_unknown = true;
        self
    }

    /// Waits until another job that is sending a row knows what became of it: for as long as a call may take
    /// ([`timeout`](CallOptions::timeout)), unless this job is cancelled. The row then comes back as that job recorded
    /// it, or is sent if that job did not send it. Without this option, or when the time is up, it comes back at once,
    /// with an error that [is in flight](Error::is_in_flight).
    pub fn wait_in_flight(mut self) -> Self {
        self.work.rules.waits_in_flight = true;
        self
    }

    pub(crate) fn ask(mut self, resolve: Resolve) -> Self {
        self.work.rules.resolve = Some(resolve);
        self
    }
}

#[cfg(feature = "ledger")]
impl<I, T> CreateMany<I, T> {
    /// Calls `resolve` for each unresolved row before it is sent again, to find out whether its agent exists. The API
    /// cannot look up agents, so only you can: in a database, through another API, or by asking the service's staff.
    ///
    /// | `resolve` returns | the row |
    /// |---|---|
    /// | [`Resolution::Agent`](crate::ledger::Resolution::Agent) | is resolved in the [ledger](Self::ledger), and reported as [`Created::Already`](crate::Created::Already) |
    /// | [`Resolution::NoAgent`](crate::ledger::Resolution::NoAgent) | is resolved as having none, and sent |
    /// | [`Resolution::Unknown`](crate::ledger::Resolution::Unknown) | stays unknown, and is not sent |
    /// | an error, or it panics, or the identifier [cannot be resolved](crate::ledger::Ledger::resolve) | stays unknown, and is not sent; the error is the [`source`](std::error::Error::source) of the row's error |
    ///
    /// Not found yet does not mean never created: a request that was cut off may still be in progress, and your search
    /// may lag behind. So return `NoAgent` only once [`sent_at`](crate::ledger::UnresolvedRow::sent_at) is longer ago than
    /// either can take, and `Unknown` until then.
    ///
    /// It is called for as many rows at a time as may be in flight. While it looks up a row, no other job sends that
    /// row or looks it up. It has no timeout but its own. If the job is cancelled, its future is dropped, and the row
    /// stays unknown. Without a [ledger](Self::ledger), no row is sent.
    ///
    /// ```no_run
    /// # use dealkit::{AgentId, CreateRow, chrono::Utc, ledger::{Ledger, Resolution, UnresolvedRow}};
    /// # async fn search(email: &str) -> Result<Option<AgentId>, std::io::Error> { Ok(None) }
    /// # fn example(client: dealkit::Client, rows: Vec<CreateRow>) {
    /// let look = async |row: UnresolvedRow| {
    ///     Ok::<_, std::io::Error>(match search(&row.key).await? {
    ///         Some(id) => Resolution::Agent(id),
    ///         None if (Utc::now() - row.sent_at).num_minutes() >= 60 => Resolution::NoAgent,
    ///         None => Resolution::Unknown,
    ///     })
    /// };
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let creations = client.agents().create_many(rows).ledger(&ledger, "email").resolve(look).stream();
    /// # }
    /// ```
    pub fn resolve<F, R, E>(self, resolve: F) -> Self
    where
        F: Fn(crate::ledger::UnresolvedRow) -> R + Send + Sync + 'static,
        R: Future<Output = Result<crate::ledger::Resolution, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let resolve = Arc::new(resolve);
        self.ask(Arc::new(move |row| {
            let resolve = Arc::clone(&resolve);
            async move { resolve(row).await.map_err(Into::into) }.boxed()
        }))
    }
}

opaque_debug!(Creates<T>);

impl<T> sealed::Sealed for Creates<T> {}

impl<T: Send + 'static> Work for Creates<T> {
    type Input = CreateRow;
    type Value = T;
    type Item = Creation<T>;
    type Running = Creating<T>;

    #[cfg(feature = "ledger")]
    fn held(&self, concurrency: usize) -> usize {
        match self.recorder {
            Some(_) => concurrency.saturating_mul(2),
            None => concurrency,
        }
    }

    fn begin<F>(
        &mut self,
        index: usize,
        row: CreateRow,
        options: &CallOptions,
        job: &Job,
        send: impl FnOnce(Call<T>) -> F + Send + 'static,
    ) -> Creating<T>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let CreateRow { body, key, label } = row;
        #[cfg(not(feature = "ledger"))]
        drop(label);
        let call = body.map(|body| (self.call)(&self.agents, body).options(options.clone()));
        let course = Arc::new(Course {
            progress: call.as_ref().map(Call::progress).unwrap_or_default(),
            ..Course::default()
        });
        let learner = job.clone();
        let send = move |call| send(call).inspect_err(move |error| learner.learn(index, error));
        let begin = || -> Result<BoxFuture<'static, Creation<T>>, Error> {
            #[cfg(feature = "ledger")]
            if let Some(recorder) = &mut self.recorder {
                let recording = recorder.begin(key.as_deref(), label, index, &self.rules)?;
                let (agent_id, course) = (self.agent_id, Arc::clone(&course));
                let running = recording.run(index, call, send, agent_id, course, job.clone());
                return Ok(running.boxed());
            } else if self.rules.are_set() {
                return Err(Error::config(
                    "not sent: resolve, resend_unknown and wait_in_flight need a ledger",
                ));
            }
            // A row's own error takes precedence.
            let call = call.and_then(|call| job.refusal().map_or(Ok(call), Err))?;
            course.may_send.store(true, Ordering::Relaxed);
            let sent = send(call).map(move |result| Creation::of(index, result));
            Ok(sent.boxed())
        };
        let call = begin().unwrap_or_else(|error| done(Creation::not_sent(index, error)).boxed());
        Creating {
            index,
            key,
            course,
            call,
            creation: None,
            job: job.clone(),
        }
    }

    async fn give_up(&mut self, mut running: Indexed<Creating<T>>) -> Indexed<Creation<T>> {
        for (_, creating) in &mut running {
            creating.give_up();
        }
        #[cfg(feature = "ledger")]
        if let Some(recorder) = &self.recorder {
            // The results that have arrived are then on disk.
            recorder.finish().await;
        }
        #[cfg(feature = "ledger")]
        let courses: Vec<_> = running
            .iter()
            .map(|(_, creating)| Arc::clone(&creating.course))
            .collect();
        let known = running.into_iter();
        #[cfg_attr(not(feature = "ledger"), expect(unused_mut))]
        let mut known: Indexed<_> = known
            .map(|(index, creating)| (index, creating.cancelled()))
            .collect();
        // So is what is known of the others, or they say why it is not.
        #[cfg(feature = "ledger")]
        for ((_, creation), course) in known.iter_mut().zip(courses) {
            if let Some(note) = course.take_last_note() {
                creation.ledger_error = note.await.err();
            }
        }
        known
    }

    #[cfg(feature = "ledger")]
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(recorder) = &mut self.recorder else {
            return Poll::Ready(());
        };
        // The recorder stays: a row that is pushed later must not be sent without a ledger.
        let ending = self
            .ending
            .get_or_insert_with(|| maybe_done(recorder.end()));
        ending.poll_unpin(context)
    }
}

/// A row in flight, which tracks how far it has come.
pub struct Creating<T> {
    index: usize,
    key: Option<String>,
    course: Arc<Course>,
    call: BoxFuture<'static, Creation<T>>,
    /// The result, if it came while the row was being given up.
    creation: Option<Creation<T>>,
    job: Job,
}

impl<T> Creating<T> {
    /// Makes sure that the row is not sent, if it has not been, and looks whether its result has come.
    fn give_up(&mut self) {
        self.course.is_given_up.store(true, Ordering::Relaxed);
        // The response may have come since the future was last polled. Polling one that has not been sent yet could
        // send it, and without a runtime none can be polled.
        let may_have_response =
            self.course.progress.is_response_due() && Handle::try_current().is_ok();
        self.look_for_result(may_have_response);
    }

    /// Looks whether its result has come, if polling its future sends nothing.
    fn look_for_result(&mut self, may_have_response: bool) {
        let sends_nothing = !self.course.may_send.load(Ordering::Relaxed) || may_have_response;
        if sends_nothing && self.creation.is_none() {
            self.creation = self.now_or_never();
        }
    }

    /// What is known of the row, now that it is given up.
    fn cancelled(mut self) -> Creation<T> {
        // A response that comes only now would have to be recorded first.
        self.look_for_result(false);
        self.creation.take().unwrap_or_else(|| {
            let progress = &self.course.progress;
            let error = Error::cancelled(progress.outcome(), progress.attempts());
            let is_unresolved = self.course.is_unresolved.load(Ordering::Relaxed);
            Creation {
                key: self.key.take(),
                ..Creation::not_sent(
                    self.index,
                    error.with_earlier_unknown_outcome(is_unresolved),
                )
            }
        })
    }
}

opaque_debug!(Creating<T>);

impl<T> Future for Creating<T> {
    type Output = Creation<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Creation<T>> {
        let creation = ready!(self.call.as_mut().poll(context));
        // What the ledger could not have of this row, it could not have of the next.
        if let Err(error) = &creation.result
            && error.kind() == ErrorKind::Ledger
        {
            self.job.stop();
        }
        let key = self.key.take();
        Poll::Ready(Creation { key, ..creation })
    }
}

/// `Creating` holds nothing that is pinned in place.
impl<T> Unpin for Creating<T> {}
