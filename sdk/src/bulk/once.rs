//! One create with a key: a job of one row, whose ledger the client keeps open.

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

use super::{
    many::Job,
    recorder::{Recording, Rules},
    row::{Course, Created, Creation, id_in},
};
use crate::{
    calls::{
        call::{Async, Call},
        operations::CallFuture,
        response::RawResponse,
    },
    error::call::Error,
    ledger::{Ledger, normalize},
    model::Agent,
    transport::base_url,
};

/// A create that is sent at most once for its key, however often and by whichever process; see [`Call::once`].
///
/// Dropping its future cancels it, as for any [`Call`]: if the request has left by then, the outcome of the key is unknown until
/// you find out and [resolve](Ledger::resolve) it. Web frameworks drop a handler when its caller hangs up, so
/// [detach](Once::detached) a create there.
#[must_use = "a call does nothing until it is awaited or sent"]
pub struct Once<T = Agent, M = Async> {
    call: Call<T, M>,
    agent_id: fn(&T) -> Option<String>,
    entry: Entry,
}

struct Entry {
    ledger: Ledger,
    key: String,
    keys: Option<String>,
    rules: Rules,
}

impl<M> Call<Agent, M> {
    /// Creates the agent only if none was created with the same key before: for web handlers and queue workers, which
    /// may run twice, in several processes. `ledger` records what became of each key, for all of them: a file for those on one machine, or a PostgreSQL database.
    ///
    /// | what became of the key | what comes back |
    /// |---|---|
    /// | nothing yet, or certainly no agent | the create is sent: [`Created::Now`] with the agent, or the call's error |
    /// | an agent was created | [`Created::Already`], with its identifier and when it was sent |
    /// | the service rejected it | an error of kind [`AlreadyAttempted`](crate::ErrorKind::AlreadyAttempted) and outcome `Rejected`, with the status; [resolve](Ledger::resolve) the key as having no agent, and send the corrected request with the same key |
    /// | nobody knows | an error of kind `AlreadyAttempted` and outcome `Unknown`: find out, and [resolve](Ledger::resolve) it |
    /// | another call or job is sending it | the same, and [`is_in_flight`](crate::Error::is_in_flight): try again a little later, or [wait](Once::wait_in_flight) |
    ///
    /// These are the rules of [`CreateMany::ledger`](crate::CreateMany::ledger), and a job may share the ledger. The
    /// ledger gets the key before the request leaves, and the outcome before you receive it, so no crash in between can
    /// lead to a second agent. If this future is dropped, what is known by then is recorded; to complete it without its
    /// caller, [detach](Once::detached) it.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, request: dealkit::CreateAgent) -> Result<(), dealkit::Error> {
    /// use dealkit::{Created, ledger::Ledger};
    ///
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// match client.agents().create(request).once(&ledger, "crm-4711").await {
    ///     Ok(Created::Now(agent)) => println!("created {}", agent.id),
    ///     Ok(Created::Already { agent_id, .. }) => println!("was already created: {agent_id:?}"),
    ///     Err(error) if error.is_in_flight() => println!("somebody else is at it: ask again"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # The ledger stays open
    ///
    /// The first such call opens it, on a separate thread, and waits for that without blocking the runtime; concurrent
    /// calls share transactions. The client and those that [share its
    /// connections](crate::ClientBuilder::share_connections) keep the last 16 ledgers open, until the last clone of the
    /// last of them is dropped. If the ledger cannot be used, nothing is sent; once that is fixed, calls continue. If a
    /// ledger was moved or damaged, put it back and restart the program.
    ///
    /// An outcome that cannot be written, say because the disk is full, still comes back, and a warning is logged. It
    /// is written as soon as possible, and until then nobody sends the row.
    ///
    /// # Errors
    /// See [`Error`](crate::Error); of kind [`Ledger`](crate::ErrorKind::Ledger) if the ledger cannot be used.
    pub fn once(self, ledger: &Ledger, key: impl Into<String>) -> Once<Agent, M> {
        Once {
            call: self,
            agent_id: |agent| Some(agent.id.to_string()),
            entry: Entry {
                ledger: ledger.clone(),
                key: key.into(),
                keys: None,
                rules: Rules::default(),
            },
        }
    }
}

impl<M> Once<Agent, M> {
    /// Makes an agent that is created now come back as the raw response, whose body is left for the caller to read; see
    /// [`Call::raw_response`].
    pub fn raw_response(self) -> Once<RawResponse, M> {
        Once {
            call: self.call.raw_response(),
            agent_id: |response| id_in(response.body()),
            entry: self.entry,
        }
    }
}

impl<T, M> Once<T, M> {
    /// Says what the keys are called, such as `"email"`: a ledger whose keys have another name is refused, because it would
    /// know none of them. Without this, nothing is compared.
    pub fn keys(mut self, name: impl Into<String>) -> Self {
        self.entry.keys = Some(name.into());
        self
    }

    /// Sends it even if nobody knows what became of the key. If the agent was created, there are then two.
    pub fn resend_unknown(mut self) -> Self {
        self.entry.rules.resends_unknown = true;
        self
    }

    /// Waits while another call or job is sending it, for as long as this call may take, and then reports what has become of
    /// it. Without this, such a call comes back at once, with an error that [is in flight](Error::is_in_flight).
    pub fn wait_in_flight(mut self) -> Self {
        self.entry.rules.waits_in_flight = true;
        self
    }

    /// The same, to be awaited, and how it was to be made.
    #[cfg(feature = "blocking")]
    pub(crate) fn into_async(self) -> (Once<T>, M) {
        let (call, mode) = self.call.into_async();
        let once = Once {
            call,
            agent_id: self.agent_id,
            entry: self.entry,
        };
        (once, mode)
    }
}

impl<T: Send + 'static> Once<T> {
    /// Makes the call, unless the ledger says what became of the key before; awaiting it does the same.
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

    /// Starts the call as a task of the current Tokio runtime, so that it also completes if nothing waits for it: dropping the
    /// returned value cancels nothing. The call still ends at its [timeout](Call::timeout), and with the runtime.
    ///
    /// For web handlers, which are dropped when their caller hangs up: a create that is cancelled after its request has
    /// left makes the outcome of its key unknown. This one records its outcome, which the next call with the key gets.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, request: dealkit::CreateAgent) -> Result<(), dealkit::Error> {
    /// # let ledger = dealkit::ledger::Ledger::sqlite("agents.ledger");
    /// let created = client.agents().create(request).once(&ledger, "crm-4711").detached().await?;
    /// # let _ = created; Ok(()) }
    /// ```
    pub fn detached(self) -> Detached<T> {
        let progress = self.call.progress();
        let sent = self.send().in_current_span();
        let Ok(runtime) = Handle::try_current() else {
            let error = Error::config("a call must be detached on a Tokio runtime");
            return Detached(ready(Err(error)).boxed());
        };
        let task = runtime.spawn(sent);
        let ended = async move {
            match task.await {
                Ok(result) => result,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_) => Err(Error::cancelled(progress.outcome(), progress.attempts())),
                },
            }
        };
        Detached(ended.boxed())
    }

    /// Makes the call with `send`: for bindings, which watch it.
    #[doc(hidden)]
    pub async fn send_with<F>(self, send: impl FnOnce(Call<T>) -> F + Send) -> Creation<T>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        // The ledger stays open until the outcome is recorded, even if the client is dropped meanwhile.
        let service = Arc::clone(self.call.service());
        let Entry {
            ledger,
            key,
            keys,
            rules,
        } = self.entry;
        let recording = || {
            if normalize(keys.as_deref(), &key).is_empty() {
                return Err(Error::config("not sent: the key is empty"));
            }
            let base_url = base_url::normal(&service.base_url);
            let handle = service.ledgers.handle(&ledger, base_url, keys)?;
            Ok(Recording::of(handle, &key, None, rules))
        };
        let creation = match recording() {
            Ok(recording) => {
                let (call, course) = (Ok(self.call), Arc::<Course>::default());
                let running = recording.run(
                    0,
                    call,
                    send,
                    self.agent_id,
                    course,
                    Job::new(NonZeroUsize::MIN),
                );
                running.await
            }
            Err(error) => Creation::not_sent(0, error),
        };
        Creation {
            key: Some(key),
            ..creation
        }
    }
}

impl<T: Send + 'static> IntoFuture for Once<T> {
    type Output = Result<Created<T>, Error>;
    type IntoFuture = CallFuture<Created<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A create with a key that completes even if this is dropped; awaiting this returns the result. See [`Once::detached`].
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

impl<T, M> fmt::Debug for Once<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
