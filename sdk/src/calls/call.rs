//! A call: a value that describes a request and can be adjusted, inspected and awaited.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::Serialize;
use tracing::Instrument;
use url::Url;

use crate::{
    calls::{
        operations::CallFuture,
        options::CallOptions,
        response::{RawResponse, Response, not_decoded},
        service::{Guard, Service},
        trace::{self, CallTrace},
    },
    error::call::Error,
    json::{
        decode::ShouldContinue,
        decode_error::DecodeError,
        unreadable::{Unreadable, UnreadableField},
    },
    transport::{
        call_progress::CallProgress,
        headers::{add_trace, parse_extra_header},
        operation::Operation,
        response::HttpResponse,
        retry::attempts::RetryPolicy,
        send::HttpRequest,
        trace::Record,
    },
    value::{
        Json,
        message::{Message, Setting},
    },
};

/// Calls that are awaited; those of the [blocking client](crate::blocking) are not.
#[derive(Clone, Copy, Debug)]
pub struct Async;

/// A call that has not been made yet.
///
/// To make it, await it or `send()` it. Before that, you can give it options, have it keep the whole response, or turn
/// it into the exact HTTP request without sending anything.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
/// let deal = client.deals().retrieve("d_1").timeout(Duration::from_secs(5)).await?;
///
/// let response = client.deals().retrieve("d_1").with_response().await?;
/// println!("{} {:?}", response.status(), response.request_id());
/// # Ok(()) }
/// ```
///
/// Dropping the future of a call cancels it, and closes its connection unless that is shared (HTTP/2). A create that is
/// cancelled after its request has left may have created the agent. Web frameworks drop a handler when its caller hangs up, so
/// let a create there finish in a task of its own
#[cfg_attr(
    feature = "ledger",
    doc = "(`tokio::spawn(call.send())`), or give it a key and [detach](crate::Once::detached) it."
)]
#[cfg_attr(not(feature = "ledger"), doc = "(`tokio::spawn(call.send())`).")]
///
/// `M` is how it is made: awaited, or by the [blocking client](crate::blocking::Client).
#[must_use = "a call does nothing until it is awaited or sent"]
pub struct Call<T, M = Async> {
    request: PendingRequest,
    read: Read<T>,
    mode: M,
}

/// A call that returns the whole response; see [`Call::with_response`].
pub type CallWithResponse<T, M = Async> = Call<Response<T>, M>;

/// Everything about a call but how it is made and how its response is read.
struct PendingRequest {
    service: Arc<Service>,
    operation: Operation,
    /// Errors in the call's parts are returned when it is sent: only `build()` fails on its own.
    parts: Result<RequestParts, Error>,
    options: CallOptions,
    progress: Arc<CallProgress>,
    guard: Option<Arc<dyn Guard>>,
}

type Read<T> =
    Box<dyn FnOnce(HttpResponse, &Record<'_>, Unreadable) -> Result<T, Error> + Send + Sync>;

/// Makes the reader of a response as a model from the model's own reader, which asks whether there is time to go on, and from
/// what lists the fields that could not be read.
pub(crate) fn read_model<T>(
    from_json: fn(Bytes, Unreadable, Option<ShouldContinue<'_>>) -> Result<T, DecodeError>,
    unreadable_fields: fn(&T) -> Vec<UnreadableField>,
) -> impl FnOnce(HttpResponse, &Record<'_>, Unreadable) -> Result<T, Error> {
    move |response, record, unreadable| {
        let body = response.body.clone();
        let model = from_json(body, unreadable, Some(&response.is_in_time()))
            .map_err(|error| not_decoded(response, error))?;
        if unreadable == Unreadable::Skip {
            trace::skipped(record.operation, &unreadable_fields(&model));
        }
        Ok(model)
    }
}

struct RequestParts {
    url: Url,
    /// The headers that propagate the caller's trace, instead of those that the client would send.
    trace: Option<HeaderMap>,
    body: Option<Bytes>,
}

impl<T> Call<T> {
    pub(crate) fn new(
        service: Arc<Service>,
        operation: Operation,
        path: Result<String, Error>,
        read: impl FnOnce(HttpResponse, &Record<'_>, Unreadable) -> Result<T, Error>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let parts = path.and_then(|path| {
            Ok(RequestParts {
                url: service.url(&path)?,
                trace: None,
                body: None,
            })
        });
        Self {
            request: PendingRequest {
                service,
                operation,
                parts,
                options: CallOptions::default(),
                progress: Arc::default(),
                guard: None,
            },
            read: Box::new(read),
            mode: Async,
        }
    }
}

impl<T, M> Call<T, M> {
    pub(crate) fn in_mode<N>(self, mode: N) -> Call<T, N> {
        Call {
            request: self.request,
            read: self.read,
            mode,
        }
    }

    pub(crate) fn with_body(mut self, body: Bytes) -> Self {
        if let Ok(parts) = &mut self.request.parts {
            parts.body = Some(body);
        }
        self
    }

    /// The same call, to be awaited, and how it was to be made.
    #[cfg(feature = "blocking")]
    pub(crate) fn into_async(self) -> (Call<T>, M) {
        let call = Call {
            request: self.request,
            read: self.read,
            mode: Async,
        };
        (call, self.mode)
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.request.service
    }

    /// How far the call has come, for a caller that may give it up.
    pub(crate) fn progress(&self) -> Arc<CallProgress> {
        Arc::clone(&self.request.progress)
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn time_limit(&self) -> Duration {
        let own = self.request.options.timeout;
        own.unwrap_or(self.request.service.total_timeout)
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn body(&self) -> Option<&Bytes> {
        self.request.parts.as_ref().ok()?.body.as_ref()
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn json_body(&self) -> Option<Json> {
        let body = self.request.parts.as_ref().ok()?.body.as_ref()?;
        serde_json::from_slice(body).ok()
    }

    /// Has this decide for each attempt whether it may be made.
    #[cfg(feature = "ledger")]
    pub(crate) fn guarded_by(mut self, guard: Arc<dyn Guard>) -> Self {
        self.request.guard = Some(guard);
        self
    }

    /// Sets these options; others stay as they are.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.request.options = self.request.options.with(options);
        self
    }

    /// The maximum duration of the call, including all attempts, overriding the client's.
    pub fn timeout(self, total: Duration) -> Self {
        self.options(CallOptions::new().timeout(total))
    }

    /// What is retried, overriding the client's policy.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.options(CallOptions::new().retry(policy))
    }

    /// Adds a header; see [`CallOptions::header`].
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.options(CallOptions::new().header(name, value))
    }

    /// What to do about an unreadable optional field of the response, overriding the client's choice.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
    /// use dealkit::Unreadable;
    ///
    /// let deal = client.deals().retrieve("d_1").unreadable(Unreadable::Skip).await?;
    /// for field in deal.unreadable() {
    ///     eprintln!("{} should be {}", field.pointer, field.expected);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn unreadable(self, unreadable: Unreadable) -> Self {
        self.options(CallOptions::new().unreadable(unreadable))
    }

    /// Sends these headers, such as `traceparent` and `tracestate`, instead of those that
    /// [`ClientBuilder::propagate`](crate::ClientBuilder::propagate) would write: for a caller that manages the call's
    /// span itself. If the call or the client already sets a header with one of these names, none of them is sent.
    pub fn propagate(mut self, headers: HeaderMap) -> Self {
        if let Ok(parts) = &mut self.request.parts {
            parts.trace = Some(headers);
        }
        self
    }

    /// What a span of the call shows: its method, its path with placeholders, and the base URL. For bindings, which make
    /// the spans themselves.
    #[doc(hidden)]
    pub fn describe(&self) -> (&Method, &str, &Url) {
        let PendingRequest {
            operation, service, ..
        } = &self.request;
        (&operation.method, &operation.template, &service.base_url)
    }

    /// Makes the call return the whole response: status, headers, attempts and raw body, in addition to
    /// the value.
    pub fn with_response(self) -> CallWithResponse<T, M>
    where
        T: 'static,
    {
        let read = self.read;
        Call {
            request: self.request,
            read: Box::new(|response, record, unreadable| {
                let value = read(response.clone(), record, unreadable)?;
                Ok(Response {
                    operation: Some(record.operation.clone()),
                    response,
                    unreadable,
                    context: None,
                    value,
                })
            }),
            mode: self.mode,
        }
    }

    /// Makes the call return the raw response, whose body you read yourself with [`RawResponse::json`].
    pub fn raw_response(self) -> Call<RawResponse, M> {
        Call {
            request: self.request,
            read: Box::new(read_nothing),
            mode: self.mode,
        }
    }

    /// The exact request that would be sent, service key included (marked sensitive, so that `Debug`
    /// does not show it). It is the last key that the file or the provider had.
    ///
    /// # Errors
    /// Whatever sending the call would find wrong before a byte leaves. Also if no call has asked the provider for a
    /// key yet, or the service rejected the last one.
    ///
    /// ```
    /// use dealkit::Client;
    ///
    /// let client = Client::builder().base_url("https://deals.example.com").service_key("k").build()?;
    /// let request = client.deals().retrieve("a/b").into_request()?;
    /// assert_eq!(request.uri(), "https://deals.example.com/v1/deals/a%2Fb");
    /// # Ok::<(), dealkit::Error>(())
    /// ```
    pub fn into_request(self) -> Result<http::Request<Bytes>, Error> {
        let PendingRequest {
            service,
            operation,
            parts,
            options,
            ..
        } = self.request;
        let key = service.keys.cached().ok_or_else(|| {
            Error::config(
                Message::from("the provider of the service key is called only when a call is made")
                    .see(Setting::ServiceKey),
            )
        })?;
        let request = prepare(&service, &operation, parts, &options)?.to_http(&key);
        request.map_err(|error| Error::from(error).with_operation(&operation))
    }
}

fn prepare(
    service: &Service,
    operation: &Operation,
    parts: Result<RequestParts, Error>,
    options: &CallOptions,
) -> Result<HttpRequest, Error> {
    let in_operation = |error: Error| error.with_operation(operation);
    let RequestParts { url, trace, body } = parts.map_err(in_operation)?;
    let trace = trace.or_else(|| {
        let mut trace = HeaderMap::new();
        service.propagate.as_ref()?(&mut trace);
        Some(trace)
    });
    // Most calls send the same headers, and share them.
    let mut headers = Arc::clone(&service.headers);
    for (name, value) in &options.headers {
        let (name, value) = parse_extra_header(name, value)
            .map_err(|message| in_operation(Error::config(message)))?;
        Arc::make_mut(&mut headers).insert(name, value);
    }
    if let Some(trace) = trace {
        add_trace(Arc::make_mut(&mut headers), trace);
    }
    Ok(HttpRequest {
        method: operation.method.clone(),
        url,
        headers,
        body,
    })
}

impl<T> Call<T> {
    /// Makes the call; awaiting it does the same.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn send(self) -> Result<T, Error> {
        let PendingRequest {
            service,
            operation,
            parts,
            options,
            progress,
            guard,
        } = self.request;
        let record = Record {
            operation: &operation,
            base: &service.base_url,
            progress: &progress,
            limits: &service.limits,
        };
        let mut trace = CallTrace::begin(record);
        let span = trace.span.clone();
        let outcome = async {
            let request = prepare(&service, &operation, parts, &options)?;
            let response = service.exchange(record, &request, &options, guard).await?;
            trace.responded(&response);
            let unreadable = options.unreadable.unwrap_or(service.unreadable);
            (self.read)(response, &record, unreadable)
        }
        .instrument(span)
        .await
        .map_err(|error: Error| error.with_operation(&operation));
        trace.finished(outcome.as_ref().map(drop));
        outcome
    }
}

pub(crate) fn read_nothing(
    response: HttpResponse,
    record: &Record<'_>,
    unreadable: Unreadable,
) -> Result<RawResponse, Error> {
    let operation = record.operation.clone();
    Ok(RawResponse::of(response, operation, unreadable))
}

impl<M> Call<RawResponse, M> {
    /// Sends `body` as JSON.
    pub fn json(mut self, body: &(impl Serialize + ?Sized)) -> Self {
        match Json::from_serialize(body) {
            Ok(body) => self.with_body(body.into_text().into()),
            Err(error) => {
                self.request.parts = self.request.parts.and(Err(Error::config(format!(
                    "the body cannot be written as JSON: {error}"
                ))));
                self
            }
        }
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        if let Ok(parts) = &mut self.request.parts {
            parts.url.query_pairs_mut().append_pair(name, value);
        }
        self
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = CallFuture<T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<T, M> fmt::Debug for Call<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &format_args!("{}", self.request.operation))
            .field("options", &self.request.options)
            .finish_non_exhaustive()
    }
}
