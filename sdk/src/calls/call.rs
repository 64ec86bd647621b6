//! Calls. A [`Call`] is a value that describes a request, and can be adjusted, inspected and awaited.

use std::{fmt, future::IntoFuture, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::Serialize;
use tokio::time::Instant;
use tracing::Instrument;
use url::Url;

use crate::{
    calls::{
        claim::Claim,
        options::CallOptions,
        response::{RawResponse, Response, make_decode_error},
        service::Service,
        trace::{self, CallTrace},
    },
    error::call::Error,
    json::{
        decode::ShouldContinue,
        decode_error::DecodeError,
        unreadable::{Unreadable, UnreadableField},
    },
    transport::{
        call_progress::{CallInfo, CallProgress},
        headers::{add_trace, parse_extra_header},
        operation::Operation,
        response::HttpResponse,
        retry::attempts::RetryPolicy,
        send::HttpRequest,
    },
    value::{
        Json,
        message::{Message, Setting},
    },
};

/// The mode of calls that are awaited, unlike the calls of the [blocking client](crate::blocking).
#[derive(Clone, Copy, Debug)]
pub struct Async;

/// The future of a call.
pub type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A call that has not been made yet.
///
/// To make the call, await it or `send()` it. Before that, you can set options, ask for the whole response, or turn the call
/// into the exact HTTP request without sending anything.
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
/// cancelled after its request was sent may have created the agent. Web frameworks drop a handler when its caller closes the
/// connection, so a create in a handler should run in its own task
#[cfg_attr(
    feature = "ledger",
    doc = "(`tokio::spawn(call.send())`), or give it an idempotency key and [detach](crate::CreateOnce::detached) it."
)]
#[cfg_attr(not(feature = "ledger"), doc = "(`tokio::spawn(call.send())`).")]
///
/// `M` is the call style: awaited, or made by the [blocking client](crate::blocking::Client).
#[must_use = "a call does nothing until it is awaited or sent"]
pub struct Call<T, M = Async> {
    request: PendingRequest,
    read_response: Read<T>,
    mode: M,
}

/// A call that returns the whole response; see [`Call::with_response`].
pub type CallWithResponse<T, M = Async> = Call<Response<T>, M>;

/// The parts of a call that do not depend on the type of its result.
struct PendingRequest {
    service: Arc<Service>,
    operation: Operation,
    /// The parts of the request, or the error of building them, which is returned when the call is sent.
    parts: Result<RequestParts, Error>,
    options: CallOptions,
    progress: Arc<CallProgress>,
    /// The claim of the row in a ledger. While a job's claim is open, no other job sends the row.
    claim: Option<Arc<Claim>>,
}

/// Reads the result of a call from its response.
type Read<T> =
    Box<dyn FnOnce(HttpResponse, &CallInfo<'_>, Unreadable) -> Result<T, Error> + Send + Sync>;

/// Returns a function that reads a model from a response. `from_json` decodes the model, and `unreadable_fields` lists the
/// fields that were skipped. Decoding stops when the call's time is over.
pub(crate) fn read_model<T>(
    from_json: fn(Bytes, Unreadable, Option<ShouldContinue<'_>>) -> Result<T, DecodeError>,
    unreadable_fields: fn(&T) -> Vec<UnreadableField>,
) -> impl FnOnce(HttpResponse, &CallInfo<'_>, Unreadable) -> Result<T, Error> {
    move |response, call, unreadable| {
        let body = response.body.clone();
        let model = from_json(body, unreadable, Some(&response.is_in_time()))
            .map_err(|error| make_decode_error(response, error))?;
        if unreadable == Unreadable::Skip {
            let skipped_fields = unreadable_fields(&model);
            trace::report_skipped(call.operation, &skipped_fields);
            call.metrics
                .add_unreadable(call.operation, skipped_fields.len());
        }
        Ok(model)
    }
}

struct RequestParts {
    url: Url,
    /// The headers that propagate a trace, if the caller has set them. Otherwise, the client's function writes such headers.
    trace: Option<HeaderMap>,
    body: Option<Bytes>,
}

impl<T> Call<T> {
    pub(crate) fn new(
        service: Arc<Service>,
        operation: Operation,
        path: Result<impl AsRef<str>, Error>,
        read_response: impl FnOnce(HttpResponse, &CallInfo<'_>, Unreadable) -> Result<T, Error>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let parts = path.and_then(|path| {
            Ok(RequestParts {
                url: service.url(path.as_ref())?,
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
                claim: None,
            },
            read_response: Box::new(read_response),
            mode: Async,
        }
    }
}

impl<T, M> Call<T, M> {
    pub(crate) fn in_mode<N>(self, mode: N) -> Call<T, N> {
        Call {
            request: self.request,
            read_response: self.read_response,
            mode,
        }
    }

    pub(crate) fn with_body(mut self, body: Bytes) -> Self {
        if let Ok(parts) = &mut self.request.parts {
            parts.body = Some(body);
        }
        self
    }

    /// Splits the call into an async call and the mode of this call.
    #[cfg(feature = "blocking")]
    pub(crate) fn into_async(self) -> (Call<T>, M) {
        let call = Call {
            request: self.request,
            read_response: self.read_response,
            mode: Async,
        };
        (call, self.mode)
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.request.service
    }

    /// Returns the progress of the call, for a caller that may cancel it.
    pub(crate) fn progress(&self) -> Arc<CallProgress> {
        Arc::clone(&self.request.progress)
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn time_limit(&self) -> Duration {
        let call_timeout = self.request.options.timeout;
        call_timeout.unwrap_or(self.request.service.total_timeout)
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

    /// Adds a claim to the call. Each attempt is then made only while the claim is open.
    #[cfg(feature = "ledger")]
    pub(crate) fn with_claim(mut self, claim: Arc<Claim>) -> Self {
        self.request.claim = Some(claim);
        self
    }

    /// Sets options of the call; options that are not set stay unchanged.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.request.options = self.request.options.with(options);
        self
    }

    /// Sets the maximum duration of the call, including all attempts, in place of the client's.
    pub fn timeout(self, total: Duration) -> Self {
        self.options(CallOptions::new().timeout(total))
    }

    /// Sets the retry policy of the call, in place of the client's.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.options(CallOptions::new().retry(policy))
    }

    /// Adds a header; see [`CallOptions::header`].
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.options(CallOptions::new().header(name, value))
    }

    /// Sets the handling of optional fields of the response that cannot be read, in place of the client's.
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

    /// Sends these headers, such as `traceparent` and `tracestate`, in place of the headers that
    /// [`ClientBuilder::propagate`](crate::ClientBuilder::propagate) would write: for a caller that manages the call's
    /// span. If the call or the client already sets a header with one of these names, none of these headers is sent.
    pub fn propagate(mut self, headers: HeaderMap) -> Self {
        if let Ok(parts) = &mut self.request.parts {
            parts.trace = Some(headers);
        }
        self
    }

    /// Returns the parts of the call that a span shows: its method, its path with placeholders, and the base URL. For bindings,
    /// which make the spans.
    #[doc(hidden)]
    pub fn describe(&self) -> (&Method, &str, &Url) {
        let PendingRequest {
            operation, service, ..
        } = &self.request;
        (&operation.method, &operation.template, &service.base_url)
    }

    /// Makes the call return the whole response: the value, with the status, headers, number of attempts and raw body.
    pub fn with_response(self) -> CallWithResponse<T, M>
    where
        T: 'static,
    {
        let read = self.read_response;
        Call {
            request: self.request,
            read_response: Box::new(|response, call, unreadable| {
                let value = read(response.clone(), call, unreadable)?;
                Ok(Response {
                    operation: Some(call.operation.clone()),
                    response,
                    unreadable,
                    run_in_span: None,
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
            read_response: Box::new(read_raw),
            mode: self.mode,
        }
    }

    /// Returns the exact request that would be sent. It contains the service key, which is marked sensitive, so that `Debug`
    /// does not show it. If the key comes from a file or a provider, it is the last key that was read.
    ///
    /// # Errors
    /// The errors that sending the call would return before a byte is sent. Also if no call has asked the provider for a
    /// key yet, or the service rejected the last key.
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
        let key = service.keys.cached_key().ok_or_else(|| {
            Error::config(
                Message::from("the provider of the service key is called only when a call is made")
                    .see(Setting::ServiceKey),
            )
        })?;
        let request = prepare_request(&service, &operation, parts, &options)?.to_http(&key);
        request.map_err(|error| Error::from(error).with_operation(&operation))
    }
}

fn prepare_request(
    service: &Service,
    operation: &Operation,
    parts: Result<RequestParts, Error>,
    options: &CallOptions,
) -> Result<HttpRequest, Error> {
    let add_operation = |error: Error| error.with_operation(operation);
    let RequestParts { url, trace, body } = parts.map_err(add_operation)?;
    let trace = trace.or_else(|| {
        let mut trace = HeaderMap::new();
        service.propagate.as_ref()?(&mut trace);
        Some(trace)
    });
    // Most calls send the client's headers unchanged, and share them.
    let mut headers = Arc::clone(&service.headers);
    for (name, value) in &options.headers {
        let (name, value) = parse_extra_header(name, value)
            .map_err(|message| add_operation(Error::config(message)))?;
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
    /// Makes the call. Awaiting the `Call` does the same.
    ///
    /// # Errors
    /// See [`Error`].
    // This is not an `async fn`, because its future would contain the call twice: as an argument and as a variable.
    pub fn send(self) -> impl Future<Output = Result<T, Error>> {
        let Self {
            request,
            read_response,
            ..
        } = self;
        async move {
            let PendingRequest {
                service,
                operation,
                parts,
                options,
                progress,
                claim,
            } = request;
            let now = Instant::now();
            progress.begin(now);
            let call = CallInfo {
                operation: &operation,
                base_url: &service.base_url,
                progress: &progress,
                limits: &service.limits,
                metrics: &service.metrics,
            };
            let mut trace = CallTrace::begin(call, now);
            let span = trace.span.clone();
            let result = async {
                let request = prepare_request(&service, &operation, parts, &options)?;
                let claim = claim.as_ref();
                let response = service.exchange(call, &request, &options, claim).await?;
                trace.record_response(&response);
                let unreadable = options.unreadable.unwrap_or(service.unreadable);
                read_response(response, &call, unreadable)
            }
            .instrument(span)
            .await
            .map_err(|error: Error| error.with_operation(&operation));
            trace.finish(result.as_ref().map(drop));
            result
        }
    }
}

/// Returns the response without decoding its body.
pub(crate) fn read_raw(
    response: HttpResponse,
    call: &CallInfo<'_>,
    unreadable: Unreadable,
) -> Result<RawResponse, Error> {
    let operation = call.operation.clone();
    Ok(RawResponse::from_response(response, operation, unreadable))
}

impl<M> Call<RawResponse, M> {
    /// Sets the body, which is sent as JSON.
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
