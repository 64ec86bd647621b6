//! Errors, results and a stub of the client, for tests of programs that use dealkit (feature `test-util`).
//!
//! An importer that must not create an agent twice needs a test of what it does when a create times out:
//!
//! ```
//! use std::time::Duration;
//!
//! use dealkit::{Error, Method, Outcome, test_util::ErrorBuilder};
//!
//! /// Returns the next step of the importer under test for a row that has failed.
//! fn next_step(error: &Error) -> &'static str {
//!     match error.outcome() {
//!         Outcome::NotSent => "send again",
//!         Outcome::Rejected => "report to the author of the row",
//!         _ => "look whether the agent exists",
//!     }
//! }
//!
//! // The create timed out after it was sent: the agent may exist.
//! let error = ErrorBuilder::timeout(Duration::from_secs(60))
//!     .operation(Method::POST, "/v1/agents")
//!     .build();
//! assert_eq!(error.to_string(), "POST /v1/agents: timed out after 60 s; the agent may exist");
//! assert!(error.is_timeout() && error.may_have_acted());
//! assert_eq!(next_step(&error), "look whether the agent exists");
//!
//! // It timed out before a connection was made.
//! let error = ErrorBuilder::timeout(Duration::from_secs(60)).outcome(Outcome::NotSent).build();
//! assert_eq!(next_step(&error), "send again");
//! ```
//!
//! [`ErrorBuilder`] makes the errors of single calls. [`Response::new`], [`Creation::new`] and [`Retrieved::new`] make the
//! results of calls, and every model has a builder. For the results that only a job has, such as a row that was cancelled or
//! has the key of another row, run a job over your own [transport](crate::ClientBuilder::transport).
//!
//! To test a program whose calls go through the trait [`Operations`], use a [`Stub`] in place of the client:
//!
//! ```
//! use dealkit::{Deal, Error, Operations, StatusCode, test_util::{ErrorBuilder, Stub}};
//!
//! /// The program under test.
//! async fn status(calls: &dyn Operations, id: &str) -> Result<Option<String>, Error> {
//!     match calls.retrieve_deal(id).await {
//!         Ok(deal) => Ok(deal.status.map(|status| status.to_string())),
//!         Err(error) if error.is_not_found() => Ok(None),
//!         Err(error) => Err(error),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Error> {
//! let stub = Stub::new().on_retrieve(|id| match id {
//!     "won" => Ok(Deal::builder().id(id).status("CLOSED").build()),
//!     "none" => Err(ErrorBuilder::status(StatusCode::NOT_FOUND).build()),
//!     _ => Err(ErrorBuilder::connect("refused").build()),
//! });
//! assert_eq!(status(&stub, "won").await?.as_deref(), Some("CLOSED"));
//! assert_eq!(status(&stub, "none").await?, None);
//! assert!(status(&stub, "d_1").await.unwrap_err().is_connection());
//! # Ok(()) }
//! ```

use std::{future::ready, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::TryFutureExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

#[cfg(feature = "ledger")]
use crate::{bulk::create_once::IdempotencyKey, ledger::LedgerRow};
use crate::{
    bulk::{
        retrieve_many::Retrieved,
        row::{Created, Creation},
    },
    calls::{
        agents::create_operation, call::CallFuture, deals::retrieve_operation,
        options::CallOptions, response::Response,
    },
    error::{call::Error, cause::Cause},
    model::{Agent, CreateAgent, Deal},
    operations::Operations,
    specification::wire,
    transport::{
        error::{SentPart, TransportCause, TransportError},
        operation::Operation,
        outcome::Outcome,
        rate::queue::LateAdmission,
        response::HttpResponse,
    },
    value::{
        AgentId,
        message::{Message, Setting},
        opaque_debug,
    },
};

/// Builds an [`Error`] like the errors of calls, with the properties that a test specifies.
///
/// As in a real call, the outcome, the problem and the violations follow from the status and the body, and the wait follows
/// from the header `Retry-After`, unless the test sets them.
///
/// ```
/// use dealkit::{Outcome, StatusCode, test_util::ErrorBuilder};
///
/// let error = ErrorBuilder::status(StatusCode::UNPROCESSABLE_ENTITY)
///     .body(r#"{"title": "Invalid", "errors": [{"pointer": "/email", "code": "invalid_email"}]}"#)
///     .request_id("r-1")
///     .build();
/// assert!(error.is_unprocessable_entity());
/// assert_eq!(error.outcome(), Outcome::Rejected);
/// assert_eq!(error.violations()[0].pointer, "/email");
/// assert_eq!(
///     error.to_string(),
///     "422 Unprocessable Entity: Invalid: /email invalid_email [request id r-1]",
/// );
/// ```
#[must_use]
#[doc(alias("mock", "fake"))]
pub struct ErrorBuilder {
    error: Error,
    response: Option<HttpResponse>,
    attempts: u32,
    retry_after: Option<Duration>,
}

impl ErrorBuilder {
    /// Wraps an error as a call returns it: a `ValidationError` or a `LedgerError`, for which nothing was sent, or a
    /// `DecodeError`.
    ///
    /// ```
    /// use dealkit::{Agent, Outcome, StatusCode, test_util::ErrorBuilder};
    ///
    /// let decode_error = Agent::from_json(r#"{"id": "a_1""#).unwrap_err();
    /// let error = ErrorBuilder::from_error(decode_error).response_status(StatusCode::CREATED).build();
    /// assert_eq!(error.outcome(), Outcome::Succeeded);
    /// assert_eq!(error.body(), Some(&br#"{"id": "a_1""#[..]));
    /// ```
    pub fn from_error(error: impl Into<Error>) -> Self {
        let error = error.into();
        Self {
            attempts: error.attempts(),
            retry_after: error.retry_after(),
            error,
            response: None,
        }
    }

    /// Makes the error of a request that was sent.
    fn from_cause(cause: TransportCause) -> Self {
        Self::from_error(TransportError::new(cause)).attempts(1)
    }

    /// Makes the error of a response with this status, which is not a success.
    pub fn status(status: StatusCode) -> Self {
        Self::from_cause(TransportCause::Status(None)).response_status(status)
    }

    /// Makes the error of a call that timed out after this duration. The request was sent, and no response arrived, so the
    /// outcome is `Unknown`.
    pub fn timeout(after: Duration) -> Self {
        Self::from_cause(TransportCause::Timeout(after, SentPart::Possibly))
    }

    /// Makes the error of a call that got no connection. The reason is the error's [`source`](std::error::Error::source). The
    /// outcome is `NotSent`.
    pub fn connect(reason: impl Into<String>) -> Self {
        Self::from_cause(TransportCause::Connect(None, Some(reason.into().into())))
    }

    /// Makes the error of a connection that broke before a response had arrived. The reason is the error's
    /// [`source`](std::error::Error::source). The outcome is `Unknown`.
    pub fn interrupted(reason: impl Into<String>) -> Self {
        Self::from_cause(TransportCause::Interrupted(reason.into().into(), None))
    }

    /// Makes the error of a call that the client's own rate limit would have delayed by this wait, beyond its timeout. The
    /// outcome is `NotSent`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dealkit::test_util::ErrorBuilder;
    ///
    /// let error = ErrorBuilder::throttled(Duration::from_secs(90)).build();
    /// assert!(error.is_throttled() && !error.may_have_acted());
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(90)));
    /// ```
    pub fn throttled(wait: Duration) -> Self {
        Self::from_error(Error::throttled(LateAdmission {
            wait,
            is_due_to_service: false,
        }))
    }

    /// Makes the error of a call that had no service key, because the provider failed with this message, for example. The
    /// outcome is `NotSent`.
    pub fn service_key(reason: impl Into<String>) -> Self {
        Self::from_error(Error::new(Cause::ServiceKey(
            Message::from(reason.into()).see(Setting::ServiceKey),
        )))
    }

    /// Makes the error of a create that was not sent, because the ledger has this record of its key from a previous attempt
    /// (feature `ledger`).
    ///
    /// ```
    /// use dealkit::{Outcome, StatusCode, ledger::LedgerRow, test_util::ErrorBuilder};
    ///
    /// let mut recorded = LedgerRow::new(Outcome::Rejected);
    /// recorded.status = Some(StatusCode::UNPROCESSABLE_ENTITY);
    /// let error = ErrorBuilder::already_attempted(recorded).build();
    /// assert_eq!(error.outcome(), Outcome::Rejected);
    /// assert_eq!(error.status(), Some(StatusCode::UNPROCESSABLE_ENTITY));
    /// ```
    #[cfg(feature = "ledger")]
    pub fn already_attempted(recorded: LedgerRow) -> Self {
        Self::from_error(Error::already_attempted(&recorded, None))
    }

    /// Makes the error of a create that was not sent, because another call or job is sending a create with the same key (feature
    /// `ledger`). The outcome is `Unknown`.
    #[cfg(feature = "ledger")]
    pub fn in_flight() -> Self {
        let mut recorded = LedgerRow::new(Outcome::Unknown);
        recorded.in_flight = true;
        Self::already_attempted(recorded)
    }

    /// Makes the error of a wrong setting of the client or the call, with this message. Nothing was sent.
    pub fn config(message: impl Into<String>) -> Self {
        Self::from_error(Error::config(message.into()))
    }

    /// Sets the operation: a method and the path with placeholders, such as `/v1/deals/{id}`. The error message begins with it,
    /// and [`may_have_acted`](Error::may_have_acted) depends on the method. An error without an operation gets the one of the
    /// call that a [`Stub`] replaces, or of the result that contains it ([`Creation::new`], [`Retrieved::new`]).
    pub fn operation(mut self, method: Method, template: impl Into<String>) -> Self {
        let template = template.into().into();
        self.error = self.error.with_operation(&Operation { method, template });
        self
    }

    /// Sets the number of attempts. Default: 1.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the outcome, in place of the outcome that follows from the other values. Examples are a timeout before anything was
    /// sent, and an earlier attempt on which the service may have acted.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.error = self.error.with_outcome(outcome);
        self
    }

    /// Sets the time to wait before the next attempt, in place of the time in the headers.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Sets the status of the response. A timeout or a broken connection has a status if the response had begun to arrive;
    /// setting its headers, its body or its request id implies a 200. The outcome is then `Succeeded`.
    pub fn response_status(mut self, status: StatusCode) -> Self {
        self.response().status = status;
        self
    }

    /// Adds headers of the response.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.response().headers.extend(headers);
        self
    }

    /// Sets the body of the response, or the part of it that arrived.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.response().body = body.into();
        self
    }

    /// Sets the request's id in the service's logs, as a header of the response. An id that no header can contain is ignored.
    pub fn request_id(mut self, id: impl AsRef<str>) -> Self {
        if let Ok(id) = HeaderValue::from_str(id.as_ref()) {
            let headers = &mut self.response().headers;
            headers.insert(wire::REQUEST_ID_HEADER, id);
        }
        self
    }

    fn response(&mut self) -> &mut HttpResponse {
        self.response.get_or_insert_with(HttpResponse::for_test)
    }

    /// Builds the error.
    pub fn build(self) -> Error {
        let header_wait = self.response.as_ref().and_then(HttpResponse::retry_after);
        let error = match self.response {
            Some(response) => self.error.with_response(response),
            None => self.error,
        };
        error.with_attempts(self.attempts, self.retry_after.or(header_wait))
    }
}

opaque_debug!(ErrorBuilder);

/// For tests (feature `test-util`).
impl<T> Retrieved<T> {
    /// Makes the result for the identifier with this index in the input.
    ///
    /// ```
    /// use dealkit::{Deal, Retrieved, StatusCode, test_util::ErrorBuilder};
    ///
    /// let found = Retrieved::new(0, "d_1", Ok(Deal::builder().id("d_1").build()));
    /// let missing: Retrieved = Retrieved::new(1, "d_2", Err(ErrorBuilder::status(StatusCode::NOT_FOUND).build()));
    /// assert_eq!(found.result.unwrap().id, found.id.as_str());
    /// assert!(missing.result.unwrap_err().is_not_found());
    /// ```
    pub fn new(index: usize, id: impl Into<String>, result: Result<T, Error>) -> Self {
        Self {
            index,
            id: id.into(),
            result: result.map_err(|error| error.with_default_operation(&retrieve_operation())),
        }
    }
}

/// For tests (feature `test-util`).
impl<T> Response<T> {
    /// Makes a response from its status, headers and body, and the value decoded from it.
    ///
    /// ```
    /// use dealkit::{Deal, Response};
    ///
    /// let http = http::Response::builder().header("x-request-id", "r-1").body(r#"{"id": "d_1"}"#)?;
    /// let response = Response::new(http, Deal::builder().id("d_1").build());
    /// assert_eq!((response.status().as_u16(), response.request_id()), (200, Some("r-1")));
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn new(http: http::Response<impl Into<Bytes>>, value: T) -> Self {
        let (head, body) = http.into_parts();
        Self {
            operation: None,
            response: HttpResponse {
                status: head.status,
                version: head.version,
                headers: head.headers,
                body: body.into(),
                ..HttpResponse::for_test()
            },
            unreadable: crate::Unreadable::default(),
            run_in_span: None,
            value,
        }
    }
}

/// For tests (feature `test-util`).
impl<T> Creation<T> {
    /// Makes the result for the row with this index, which has no key.
    pub fn new(index: usize, result: Result<T, Error>) -> Self {
        let result = result.map_err(|error| error.with_default_operation(&create_operation()));
        Self::from_result(index, result)
    }

    /// Makes the result for the row with this index that was not sent, because the ledger has this record of it.
    ///
    /// ```
    /// use dealkit::{Created, Creation, Outcome, ledger::LedgerRow};
    ///
    /// let mut recorded = LedgerRow::new(Outcome::Succeeded);
    /// recorded.agent_id = Some("a_1".into());
    /// let mut creation: Creation = Creation::from_ledger(0, recorded);
    /// creation.key = Some("ada@example.com".to_owned());
    /// assert_eq!(creation.agent_id().unwrap(), "a_1");
    /// assert!(matches!(creation.result, Ok(Created::Already { .. })));
    /// ```
    #[cfg(feature = "ledger")]
    pub fn from_ledger(index: usize, recorded: LedgerRow) -> Self {
        Self::from_record(index, recorded)
    }
}

/// For tests (feature `test-util`).
impl<T> Created<T> {
    /// Makes the result of a create whose agent was created earlier, so that nothing was sent.
    pub fn already(agent_id: impl Into<AgentId>) -> Self {
        Self::Already {
            agent_id: Some(agent_id.into()),
            sent_at: None,
            request_differs: false,
        }
    }
}

/// For tests (feature `test-util`).
#[cfg(feature = "ledger")]
impl LedgerRow {
    /// Makes a ledger's record of a row with this outcome, without other data.
    pub fn new(outcome: Outcome) -> Self {
        Self::with_outcome(outcome)
    }
}

/// Replaces a [`Client`](crate::Client) in tests. The test sets a function for each operation, which returns the result. The
/// options of calls are ignored. An error without an [operation](ErrorBuilder::operation) gets the operation of the call, as the
/// errors of a client have it.
///
/// An operation without a function returns an error of kind `Config`.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use dealkit::{Agent, AgentProfileResponse, CreateAgent, Error, Operations, test_util::Stub};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Error> {
/// let requests = Arc::new(Mutex::new(Vec::new()));
/// let seen = Arc::clone(&requests);
/// let stub = Stub::new().on_create_agent(move |request| {
///     seen.lock().unwrap().push(request);
///     let agent = Agent::builder().id("a_1").email("ada@example.com").first_name("Ada").last_name("Lovelace");
///     Ok(agent.profile(AgentProfileResponse::default()).role_assignments([]).build())
/// });
/// # let request = CreateAgent::builder().email("ada@example.com").first_name("Ada").last_name("Lovelace")
/// #     .profile(dealkit::AgentProfile::new()).build()?;
/// let agent = stub.create_agent(request).await?;
/// assert_eq!(agent.id, "a_1");
/// assert_eq!(requests.lock().unwrap()[0].email(), "ada@example.com");
/// assert!(stub.retrieve_deal("d_1").await.is_err()); // this operation has no function
/// # Ok(()) }
/// ```
///
/// The functions whose names end in `_async` are async: a call can then wait for an event of the test.
///
/// ```
/// use std::sync::Arc;
///
/// use dealkit::{Deal, Error, Operations, test_util::Stub};
/// use tokio::sync::Notify;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Error> {
/// let released = Arc::new(Notify::new());
/// let waiting = Arc::clone(&released);
/// let stub = Stub::new().on_retrieve_async(move |id| {
///     let waiting = Arc::clone(&waiting); // for this call's future
///     async move {
///         waiting.notified().await;
///         Ok(Deal::builder().id(id).build())
///     }
/// });
/// let call = tokio::spawn(stub.retrieve_deal("d_1"));
/// released.notify_one();
/// assert_eq!(call.await.unwrap()?.id, "d_1");
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[doc(alias = "mock")]
pub struct Stub {
    create: Arc<CreateFunction>,
    #[cfg(feature = "ledger")]
    create_once: Arc<CreateOnceFunction>,
    retrieve: Arc<RetrieveFunction>,
}

type CreateFunction = dyn Fn(CreateAgent) -> CallFuture<Agent> + Send + Sync;
#[cfg(feature = "ledger")]
type CreateOnceFunction = dyn Fn(CreateAgent, IdempotencyKey) -> CallFuture<Created> + Send + Sync;
type RetrieveFunction = dyn Fn(String) -> CallFuture<Deal> + Send + Sync;

impl Stub {
    /// Makes a stub without functions.
    pub fn new() -> Self {
        fn missing_function<T: Send + 'static>(name: &str) -> CallFuture<T> {
            let error = Error::config(format!("the stub has no function: call Stub::{name}"));
            Box::pin(ready(Err(error)))
        }
        Self {
            create: Arc::new(|_| missing_function("on_create_agent")),
            #[cfg(feature = "ledger")]
            create_once: Arc::new(|_, _| missing_function("on_create_agent_once")),
            retrieve: Arc::new(|_| missing_function("on_retrieve")),
        }
    }

    /// Sets the function for [`create_agent`](Operations::create_agent).
    #[must_use]
    pub fn on_create_agent(
        self,
        create: impl Fn(CreateAgent) -> Result<Agent, Error> + Send + Sync + 'static,
    ) -> Self {
        self.on_create_agent_async(move |request| ready(create(request)))
    }

    /// Sets the async function for [`create_agent`](Operations::create_agent).
    #[must_use]
    pub fn on_create_agent_async<F, R>(mut self, create: F) -> Self
    where
        F: Fn(CreateAgent) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Agent, Error>> + Send + 'static,
    {
        self.create = Arc::new(move |request| Box::pin(create(request)));
        self
    }

    /// Sets the function for [`create_agent_once`](Operations::create_agent_once). Nothing opens the key's ledger.
    ///
    /// ```
    /// use dealkit::{AgentProfile, CreateAgent, Created, Error, IdempotencyKey, Operations, ledger::Ledger};
    /// use dealkit::test_util::{ErrorBuilder, Stub};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Error> {
    /// let stub = Stub::new().on_create_agent_once(|_, key| match key.as_str() {
    ///     "crm-1" => Err(ErrorBuilder::in_flight().build()),
    ///     _ => Ok(Created::already("a_1")),
    /// });
    /// # let request = CreateAgent::builder().email("ada@example.com").first_name("Ada").last_name("Lovelace")
    /// #     .profile(AgentProfile::new()).build()?;
    /// let ledger = Ledger::sqlite("agents.ledger");
    /// let error = stub.create_agent_once(request.clone(), IdempotencyKey::new(&ledger, "crm-1")).await.unwrap_err();
    /// assert!(error.is_in_flight());
    /// let created = stub.create_agent_once(request, IdempotencyKey::new(&ledger, "crm-2")).await?;
    /// assert!(matches!(created, Created::Already { agent_id: Some(id), .. } if id == "a_1"));
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "ledger")]
    #[must_use]
    pub fn on_create_agent_once(
        self,
        create: impl Fn(CreateAgent, IdempotencyKey) -> Result<Created, Error> + Send + Sync + 'static,
    ) -> Self {
        self.on_create_agent_once_async(move |request, key| ready(create(request, key)))
    }

    /// Sets the async function for [`create_agent_once`](Operations::create_agent_once).
    #[cfg(feature = "ledger")]
    #[must_use]
    pub fn on_create_agent_once_async<F, R>(mut self, create: F) -> Self
    where
        F: Fn(CreateAgent, IdempotencyKey) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Created, Error>> + Send + 'static,
    {
        self.create_once = Arc::new(move |request, key| Box::pin(create(request, key)));
        self
    }

    /// Sets the function for [`retrieve_deal`](Operations::retrieve_deal).
    #[must_use]
    pub fn on_retrieve(
        self,
        retrieve: impl Fn(&str) -> Result<Deal, Error> + Send + Sync + 'static,
    ) -> Self {
        self.on_retrieve_async(move |id| ready(retrieve(&id)))
    }

    /// Sets the async function for [`retrieve_deal`](Operations::retrieve_deal).
    #[must_use]
    pub fn on_retrieve_async<F, R>(mut self, retrieve: F) -> Self
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Deal, Error>> + Send + 'static,
    {
        self.retrieve = Arc::new(move |id| Box::pin(retrieve(id)));
        self
    }
}

impl Default for Stub {
    fn default() -> Self {
        Self::new()
    }
}

impl Operations for Stub {
    fn create_agent_with(&self, request: CreateAgent, _: CallOptions) -> CallFuture<Agent> {
        with_operation((self.create)(request), create_operation)
    }

    #[cfg(feature = "ledger")]
    fn create_agent_once_with(
        &self,
        request: CreateAgent,
        key: IdempotencyKey,
        _: CallOptions,
    ) -> CallFuture<Created> {
        with_operation((self.create_once)(request, key), create_operation)
    }

    fn retrieve_deal_with(&self, id: &str, _: CallOptions) -> CallFuture<Deal> {
        with_operation((self.retrieve)(id.to_owned()), retrieve_operation)
    }
}

/// Adds the operation to the error of a call, unless the test has set one.
fn with_operation<T: 'static>(call: CallFuture<T>, operation: fn() -> Operation) -> CallFuture<T> {
    Box::pin(call.map_err(move |error| error.with_default_operation(&operation())))
}

opaque_debug!(Stub);
