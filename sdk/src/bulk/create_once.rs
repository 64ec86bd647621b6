//! The creation of one agent with an idempotency key, through a ledger that the client keeps open.

use std::{
    fmt,
    future::IntoFuture,
    num::NonZeroUsize,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{BoxFuture, FutureExt as _, ready};
use tokio::runtime::Handle;
use tracing::Instrument as _;

#[cfg(feature = "blocking")]
use crate::bulk::create_with_ledger::Resolve;
use crate::{
    bulk::{
        create_with_ledger::{CreateWithLedger, LedgerOptions, make_resolve},
        many::JobState,
        row::{Created, Creation, RowProgress, check_label},
    },
    calls::{
        agents::create_operation,
        call::{Async, Call, CallFuture},
        claim::LookedUpKey,
        response::{RawResponse, find_id},
    },
    error::call::Error,
    ledger::{Ledger, Resolution, UnresolvedRow, normalize},
    model::Agent,
    transport::base_url,
    value::opaque_debug,
};

/// A create that is sent at most once for its idempotency key, however many calls and processes use the key; see
/// [`Call::once`].
///
/// Dropping the future of the create cancels it, as for any [`Call`]. If the request has been sent by then, the outcome of the
/// key is unknown until you find out whether the agent exists, and [resolve](Ledger::resolve) the key. Web frameworks drop a
/// handler when its caller closes the connection. So let a create that a handler sends continue in a task: see
/// [`detached`](CreateOnce::detached).
#[must_use = "a call does nothing until it is awaited or sent"]
#[doc(alias("idempotency", "exactly once"))]
pub struct CreateOnce<T = Agent, M = Async> {
    call: Call<T, M>,
    get_agent_id: fn(&T) -> Option<String>,
    key: IdempotencyKey,
}

/// An idempotency key, the ledger that records its outcome, and what to do if the ledger already has an outcome: for
/// [`Operations::create_agent_once`](crate::Operations::create_agent_once). A [`Client`](crate::Client) takes the parts
/// separately: see [`Call::once`].
///
/// ```
/// use dealkit::{IdempotencyKey, ledger::Ledger};
///
/// let ledger = Ledger::sqlite("agents.ledger");
/// let key = IdempotencyKey::new(&ledger, "crm-4711").key_name("crm id").wait_in_flight();
/// assert_eq!(key.as_str(), "crm-4711");
/// ```
///
/// `Debug` does not show the key, which may be personal data.
#[derive(Clone)]
#[must_use]
#[doc(alias("idempotency", "deduplication"))]
pub struct IdempotencyKey {
    ledger: Ledger,
    key: String,
    key_name: Option<String>,
    label: Option<String>,
    options: LedgerOptions,
}

impl IdempotencyKey {
    /// Makes a key that this ledger records. Nothing is opened.
    pub fn new(ledger: &Ledger, key: impl Into<String>) -> Self {
        Self {
            ledger: ledger.clone(),
            key: key.into(),
            key_name: None,
            label: None,
            options: LedgerOptions::default(),
        }
    }

    /// Returns the key.
    pub fn as_str(&self) -> &str {
        &self.key
    }

    /// Returns the ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// See [`CreateOnce::key_name`].
    pub fn key_name(mut self, name: impl Into<String>) -> Self {
        self.key_name = Some(name.into());
        self
    }

    /// See [`CreateOnce::label`].
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// See [`CreateOnce::resend_unknown`].
    pub fn resend_unknown(mut self) -> Self {
        self.options.resend_unknown = true;
        self
    }

    /// See [`CreateOnce::resend_corrected`].
    pub fn resend_corrected(mut self) -> Self {
        self.options.resend_corrected = true;
        self
    }

    /// See [`CreateOnce::wait_in_flight`].
    pub fn wait_in_flight(mut self) -> Self {
        self.options.wait_in_flight = true;
        self
    }

    /// See [`CreateOnce::resolve`].
    pub fn resolve<F, R, E>(mut self, resolve: F) -> Self
    where
        F: Fn(UnresolvedRow) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Resolution, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.options.resolve = Some(make_resolve(resolve));
        self
    }
}

opaque_debug!(IdempotencyKey);

impl<M> Call<Agent, M> {
    /// Creates the agent only if no agent was created with the same idempotency key: for web handlers and queue workers, which
    /// may run twice, in several processes. `ledger` records the outcome of each key for all of these processes: a file for
    /// processes on one machine, or a PostgreSQL database. The key is never sent to the service.
    ///
    /// | the ledger's record of the key | the result |
    /// |---|---|
    /// | none, or that there is no agent | the create is sent: [`Created::Now`] with the agent, or the call's error |
    /// | created | [`Created::Already`], with the agent's identifier and the time at which it was sent |
    /// | created from other data | an error of kind [`IdempotencyKeyReused`](crate::ErrorKind::IdempotencyKeyReused), whose [`created_agent_id`](crate::Error::created_agent_id) is that agent: use another key for another agent |
    /// | rejected | an error of kind [`AlreadyAttempted`](crate::ErrorKind::AlreadyAttempted) and outcome `Rejected`, with the status; correct the request, and send it with the same key and [`resend_corrected`](CreateOnce::resend_corrected), or [resolve](Ledger::resolve) the key as having no agent before you send it |
    /// | unknown | an error of kind `AlreadyAttempted` and outcome `Unknown`: find out whether the agent exists, and [resolve](Ledger::resolve) the key |
    /// | another call or job is sending it now | the same error, which [is in flight](crate::Error::is_in_flight): try again a little later, or [wait](CreateOnce::wait_in_flight) |
    ///
    /// A job with a ledger follows the same rules (see [`CreateMany::ledger`](crate::CreateMany::ledger)), and may use the same
    /// ledger. The ledger records the key before the request is sent, and the outcome before you receive the result. So a crash
    /// in between cannot lead to a second agent. If this future is dropped, the outcome so far is recorded; to complete the
    /// call even if its caller is dropped, [detach](CreateOnce::detached) it.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, request: dealkit::CreateAgent) -> Result<(), dealkit::Error> {
    /// use dealkit::{Created, ledger::Ledger};
    ///
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// match client.agents().create(request).once(&ledger, "crm-4711").key_name("crm_id").await {
    ///     Ok(Created::Now(agent)) => println!("created {}", agent.id),
    ///     Ok(Created::Already { agent_id, .. }) => println!("was already created: {agent_id:?}"),
    ///     Err(error) if error.is_in_flight() => println!("another call is creating it: try again"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # The ledger stays open
    ///
    /// The first call with a ledger opens it on a separate thread, without blocking the runtime. Concurrent calls share
    /// transactions. The client and the clients that [share its connections](crate::ClientBuilder::share_connections) keep the
    /// 16 most recently used ledgers open, until the last of these clients is dropped. While a ledger cannot be used, nothing
    /// is sent. Once the cause is fixed, calls continue. If a ledger was moved or damaged, put it back and restart the program.
    ///
    /// If an outcome cannot be recorded, because the disk is full, for example, the result is still returned, and a warning is
    /// logged. The outcome is recorded as soon as possible. Until then, no call or job sends a create with this key.
    ///
    /// # Errors
    /// See [`Error`](crate::Error); of kind [`Ledger`](crate::ErrorKind::Ledger) if the ledger cannot be used.
    #[doc(alias("idempotency", "idempotency key"))]
    pub fn once(self, ledger: &Ledger, idempotency_key: impl Into<String>) -> CreateOnce<Agent, M> {
        self.once_with(IdempotencyKey::new(ledger, idempotency_key))
    }

    pub(crate) fn once_with(self, key: IdempotencyKey) -> CreateOnce<Agent, M> {
        CreateOnce {
            call: self,
            get_agent_id: |agent| Some(agent.id.to_string()),
            key,
        }
    }
}

impl<M> CreateOnce<Agent, M> {
    /// Returns the raw response of an agent that this call creates, whose body you read yourself; see
    /// [`Call::raw_response`].
    pub fn raw_response(self) -> CreateOnce<RawResponse, M> {
        CreateOnce {
            call: self.call.raw_response(),
            get_agent_id: |response| find_id(response.body()),
            key: self.key,
        }
    }
}

impl<T, M> CreateOnce<T, M> {
    /// Sets what the idempotency keys are, such as `"email"`. If the keys in the ledger have another name, the call fails,
    /// because the ledger cannot contain your keys. Without this setting, the names are not compared.
    pub fn key_name(mut self, name: impl Into<String>) -> Self {
        self.key = self.key.key_name(name);
        self
    }

    /// Sets a label that the ledger records with the key, such as an identifier in your own system. It says which of your records
    /// an unresolved key belongs to: `dealkit ledger show`, the [unresolved rows](crate::ledger::LedgerSummary::unresolved) and
    /// the error have it. The label is stored as text, so it must not be personal data. If it is longer than
    /// [`MAX_LABEL`](crate::CreateRow::MAX_LABEL), nothing is sent.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, request: dealkit::CreateAgent) -> Result<(), dealkit::Error> {
    /// # let ledger = dealkit::ledger::Ledger::sqlite("agents.ledger");
    /// let once = client.agents().create(request).once(&ledger, "ada@example.com").key_name("email").label("crm-4711");
    /// let created = once.await?;
    /// # let _ = created; Ok(()) }
    /// ```
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.key = self.key.label(label);
        self
    }

    /// Sends the create even if the outcome of the key is unknown. If the agent was created, there are then two.
    pub fn resend_unknown(mut self) -> Self {
        self.key = self.key.resend_unknown();
        self
    }

    /// Sends the create if the service rejected an earlier request with the key, and the request has changed since. Without
    /// this option, or if the request is the same, the result is the recorded rejection.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, corrected: dealkit::CreateAgent) -> Result<(), dealkit::Error> {
    /// # let ledger = dealkit::ledger::Ledger::sqlite("agents.ledger");
    /// let once = client.agents().create(corrected).once(&ledger, "crm-4711").key_name("crm_id");
    /// let created = once.resend_corrected().await?;
    /// # let _ = created; Ok(()) }
    /// ```
    pub fn resend_corrected(mut self) -> Self {
        self.key = self.key.resend_corrected();
        self
    }

    /// Waits while another call or job is sending a create with the same key, at most as long as this call may take, and then
    /// returns the recorded outcome. Without this option, the result is an error for which
    /// [`is_in_flight`](Error::is_in_flight) returns true.
    pub fn wait_in_flight(mut self) -> Self {
        self.key = self.key.wait_in_flight();
        self
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn set_resolve(mut self, resolve: Resolve) -> Self {
        self.key.options.resolve = Some(resolve);
        self
    }

    /// Splits the call into an async call and the mode of this call.
    #[cfg(feature = "blocking")]
    pub(crate) fn into_async(self) -> (CreateOnce<T>, M) {
        let (call, mode) = self.call.into_async();
        let once = CreateOnce {
            call,
            get_agent_id: self.get_agent_id,
            key: self.key,
        };
        (once, mode)
    }
}

impl<T> CreateOnce<T> {
    /// Calls `resolve` if the outcome of the key is unknown, to find out whether the agent exists, before the create is sent again.
    /// The same rules apply as to [`CreateMany::resolve`](crate::CreateMany::resolve), which also says how to write a closure that
    /// uses variables. So a queue worker that runs again after a crash can complete the create by itself.
    ///
    /// ```no_run
    /// # use dealkit::{AgentId, CreateAgent, Client, ledger::{Ledger, Resolution, UnresolvedRow}};
    /// # async fn search(key: &str) -> Result<Option<AgentId>, std::io::Error> { Ok(None) }
    /// # async fn example(client: Client, request: CreateAgent) -> Result<(), dealkit::Error> {
    /// let find_agent = async |row: UnresolvedRow| {
    ///     Ok::<_, std::io::Error>(match search(&row.key).await? {
    ///         Some(id) => Resolution::Agent(id),
    ///         None => Resolution::Unknown, // or, once the row was sent long enough ago, `NoAgent`
    ///     })
    /// };
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let created = client.agents().create(request).once(&ledger, "crm-4711").resolve(find_agent).await?;
    /// # let _ = created; Ok(()) }
    /// ```
    pub fn resolve<F, R, E>(mut self, resolve: F) -> Self
    where
        F: Fn(UnresolvedRow) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Resolution, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.key = self.key.resolve(resolve);
        self
    }
}

impl<T: Send + 'static> CreateOnce<T> {
    /// Makes the call, unless the ledger already has an outcome of the idempotency key. Awaiting the `CreateOnce` does the
    /// same.
    ///
    /// # Errors
    /// See [`Call::once`].
    pub async fn send(self) -> Result<Created<T>, Error> {
        let creation = self.send_with(|call| call.send()).await;
        if let Some(error) = creation.ledger_error {
            tracing::warn!(target: "dealkit", "the outcome of a create could not be recorded yet: {error}");
        }
        creation.result
    }

    /// Starts the call as a task of the current Tokio runtime, so that it completes even if its caller is dropped: dropping the
    /// returned value cancels nothing. The call still ends at its [timeout](Call::timeout), and when the runtime shuts down.
    ///
    /// Use this in web handlers, which are dropped when their caller closes the connection: cancelling a create whose request
    /// has been sent makes the outcome of its key unknown. A detached create records its outcome, which the next call with the
    /// key returns. A service with a graceful shutdown spawns its creates on a
    /// [`TaskTracker`](https://docs.rs/tokio-util/latest/tokio_util/task/struct.TaskTracker.html) instead, and waits for it.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, request: dealkit::CreateAgent) -> Result<(), dealkit::Error> {
    /// # let ledger = dealkit::ledger::Ledger::sqlite("agents.ledger");
    /// let created = client.agents().create(request).once(&ledger, "crm-4711").detached().await?;
    /// # let _ = created; Ok(()) }
    /// ```
    pub fn detached(self) -> Detached<T> {
        let progress = self.call.progress();
        let send_future = self.send().in_current_span();
        let Ok(runtime) = Handle::try_current() else {
            let error = Error::config("a call must be detached on a Tokio runtime");
            return Detached(ready(Err(error)).boxed());
        };
        let task = runtime.spawn(send_future);
        let result = async move {
            match task.await {
                Ok(result) => result,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_) => Err(Error::cancelled(progress.outcome(), progress.attempts())),
                },
            }
        };
        Detached(result.boxed())
    }

    /// Makes the call through the function `send`, and returns the whole result. For the bindings, whose function reports the
    /// call to Python's observers.
    #[doc(hidden)]
    pub async fn send_with<F>(self, send: impl FnOnce(Call<T>) -> F + Send) -> Creation<T>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        // The ledger stays open until the outcome is recorded, even if the client is dropped meanwhile.
        let service = Arc::clone(self.call.service());
        let IdempotencyKey {
            ledger,
            key,
            key_name,
            label,
            options,
        } = self.key;
        let look_up = || {
            if normalize(key_name.as_deref(), &key).is_empty() {
                return Err(Error::config("not sent: the idempotency key is empty"));
            }
            check_label(label.as_deref())?;
            let base_url = base_url::normalize(&service.base_url);
            let handle = service.ledgers.handle(&ledger, base_url, key_name)?;
            Ok(LookedUpKey::new(handle, &key, label))
        };
        let creation = match look_up() {
            Ok(looked_up) => {
                let create = CreateWithLedger {
                    key: looked_up,
                    options,
                    index: 0,
                    progress: Arc::new(RowProgress::new(self.call.progress())),
                    call: Ok(self.call),
                    get_agent_id: self.get_agent_id,
                    job: JobState::new(NonZeroUsize::MIN),
                };
                create.run(send).await
            }
            Err(error) => Creation::not_sent(0, error),
        };
        Creation {
            key: Some(key),
            result: creation.result.and_then(reject_changed_request),
            ..creation
        }
    }
}

/// Returns an error if the agent was created earlier from another request: the caller takes it for the agent of this request. In
/// a job, one changed row must not end a whole run, so there the result only [says so](Creation::request_differs).
fn reject_changed_request<T>(created: Created<T>) -> Result<Created<T>, Error> {
    match created {
        Created::Already {
            agent_id,
            sent_at,
            request_differs: true,
        } => {
            let error = Error::idempotency_key_reused(agent_id, sent_at);
            Err(error.with_operation(&create_operation()))
        }
        created => Ok(created),
    }
}

impl<T: Send + 'static> IntoFuture for CreateOnce<T> {
    type Output = Result<Created<T>, Error>;
    type IntoFuture = CallFuture<Created<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A create with an idempotency key that completes even if this value is dropped. Awaiting it returns the result. See
/// [`CreateOnce::detached`].
pub struct Detached<T = Agent>(BoxFuture<'static, Result<Created<T>, Error>>);

impl<T> Future for Detached<T> {
    type Output = Result<Created<T>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

impl<T> fmt::Debug for Detached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}

impl<T, M> fmt::Debug for CreateOnce<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateOnce")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
