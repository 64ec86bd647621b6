//! One attempt: sends a request, and reads the response completely.

use std::{
    error::Error as StdError,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::{
    runtime::Handle,
    time::{Instant, Sleep, sleep, sleep_until},
};
use url::Url;

use crate::{
    specification::wire,
    transport::{
        connect::{
            failure::{ConnectFailure, LibraryError},
            find::find_source,
            h2_errors::{is_reset_stream, was_not_processed},
            hyper_errors::{self, ended_before_request},
            pools::{PoolShard, Pools, Route},
            progress::{MaySend, Progress},
            rustls_errors,
            transport::{Transport, TransportNotSent},
        },
        error::{SentPart, TransportCause, TransportError},
        key::{self, Key},
        response::{HttpResponse, TimeLeft},
    },
};

/// The number of bytes of an error's body that are read. An error is useful without its whole body.
const MAX_ERROR_BODY: u64 = 1024 * 1024;

/// The memory that is reserved for a body whose length the service declares, in bytes. A declared length is only a promise, so
/// no more is reserved.
const MAX_RESERVED_BODY: u64 = 64 * 1024;

/// An attempt that notices its deadline this late assumes that the process was suspended. It then continues for
/// [`GRACE_PERIOD`], to read a response that has arrived meanwhile.
const LATE_WAKE_UP: Duration = Duration::from_millis(100);
const GRACE_PERIOD: Duration = Duration::from_millis(100);

/// The number of times that a request waits for a free file descriptor, and the duration of each wait.
pub(crate) const DESCRIPTOR_WAITS: u32 = 40;
pub(crate) const DESCRIPTOR_WAIT: Duration = Duration::from_millis(50);

/// The time limit in place of a longer one that the clock cannot represent: some thirty years.
const NEVER: Duration = Duration::from_secs(1_000_000_000);

#[derive(Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// The headers with an empty service key, which each attempt replaces.
    pub(crate) headers: Arc<HeaderMap>,
    pub(crate) body: Option<Bytes>,
}

impl HttpRequest {
    pub(crate) fn to_http(&self, key: &Key) -> Result<http::Request<Bytes>, TransportError> {
        let mut request = http::Request::new(self.body.clone().unwrap_or_default());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.as_str().parse().map_err(|error| {
            TransportError::new(TransportCause::Unsendable(format!("its URL: {error}")))
        })?;
        *request.headers_mut() = self.make_headers(key);
        Ok(request)
    }

    fn make_headers(&self, key: &Key) -> HeaderMap {
        let mut headers = HeaderMap::clone(&self.headers);
        headers.insert(&key::HEADER, key.header.clone());
        if self.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(wire::JSON));
        }
        headers
    }
}

/// One attempt to send a request.
pub(crate) struct Attempt<'a> {
    pub(crate) pools: &'a Pools,
    pub(crate) runtime: &'a Handle,
    pub(crate) request: &'a HttpRequest,
    /// Checks whether the request may still be sent once it has a connection.
    pub(crate) may_send: Option<MaySend>,
    pub(crate) key: &'a Key,
    /// The time limit that errors name.
    pub(crate) limit: Duration,
    pub(crate) max_response_bytes: u64,
    pub(crate) progress: &'a Progress,
}

impl Attempt<'_> {
    /// Sends the request, and reads the response, within `time` from `now` on.
    ///
    /// # Errors
    /// If no complete response arrives in time, or if the response is not a success or too large.
    pub(crate) async fn send(
        self,
        now: Instant,
        time: Duration,
    ) -> Result<HttpResponse, TransportError> {
        let end = now.checked_add(time).unwrap_or(now + NEVER);
        let mut deadline = Deadline {
            timer: pin!(sleep_until(end)),
            is_extended: false,
        };
        let (mut incoming_response, shard) =
            match deadline.run_in_time(pin!(self.send_head())).await {
                Some(Ok(head_and_shard)) => head_and_shard,
                Some(Err(error)) => return Err(error),
                None if self.progress.is_connecting() => {
                    return Err(self.make_timeout_error(SentPart::Nothing));
                }
                None => return Err(self.make_timeout_error(SentPart::Possibly)),
            };
        self.progress.record_status(incoming_response.status());
        let (status, version) = (incoming_response.status(), incoming_response.version());
        let headers = std::mem::take(incoming_response.headers_mut());
        let (body, failure) = self.read_body(&mut incoming_response, &mut deadline).await;
        // The shard is held until the whole response has arrived.
        drop(shard);
        let response = HttpResponse {
            status,
            version,
            headers,
            body,
            attempts: 1,
            redactor: self.key.redactor.clone(),
            time_left: TimeLeft {
                time: end.saturating_duration_since(Instant::now()),
                limit: self.limit,
            },
        };
        if !status.is_success() {
            // The status is the error, however much of the body has arrived.
            return Err(TransportError::from_response(response, &self.request.url));
        }
        match failure {
            // The error keeps the part of the body that has arrived.
            Some(error) => Err(error.with_response(response)),
            None => Ok(response),
        }
    }

    /// Sends the request, and returns the head of the response. Over dealkit's own connections, also returns the shard, which the
    /// rest of the response needs.
    async fn send_head(
        &self,
    ) -> Result<(reqwest::Response, Option<Arc<PoolShard>>), TransportError> {
        match self.pools.transport() {
            None => {
                let (response, shard) = self.send_over_connection().await?;
                Ok((response, Some(shard)))
            }
            Some(transport) => Ok((self.send_through(transport).await?, None)),
        }
    }

    async fn send_over_connection(
        &self,
    ) -> Result<(reqwest::Response, Arc<PoolShard>), TransportError> {
        let mut waits = 0;
        loop {
            let shard = self.pools.find_shard(self.runtime, &self.request.method);
            let shard = shard.map_err(|message| {
                let message = ConnectFailure::permanent(message);
                TransportError::new(TransportCause::Connect(Some(message), None))
            })?;
            let send_future = shard.http_client.execute(self.to_reqwest());
            let error = match self.progress.observe_request(send_future).await {
                Ok(response) => return Ok((response, shard)),
                Err(error) => error,
            };
            if waits == DESCRIPTOR_WAITS || !hyper_errors::lacks_descriptor(&error) {
                return Err(self.explain_error(error));
            }
            waits += 1;
            self.pools.close_idle();
            self.progress
                .observe_preparation(sleep(DESCRIPTOR_WAIT))
                .await;
        }
    }

    fn to_reqwest(&self) -> reqwest::Request {
        let HttpRequest { method, url, .. } = self.request;
        let mut request = reqwest::Request::new(method.clone(), url.clone());
        *request.headers_mut() = self.request.make_headers(self.key);
        if let Some(body) = &self.request.body {
            let body = match &self.may_send {
                None => body.clone().into(),
                Some(may_send) => reqwest::Body::wrap(GuardedBody {
                    body: Full::new(body.clone()),
                    may_send: Arc::clone(may_send),
                    progress: self.progress.clone(),
                }),
            };
            *request.body_mut() = Some(body);
        }
        request
    }

    async fn send_through(
        &self,
        transport: &Transport,
    ) -> Result<reqwest::Response, TransportError> {
        let request = self.request.to_http(self.key)?;
        let send_future = transport.send(request, self.may_send.as_ref(), self.progress);
        send_future.await.map_err(|error| {
            let cause = LibraryError::from_error(&*error, &|text| self.mask(text));
            TransportError::new(match find_source::<TransportNotSent>(&*error) {
                Some(_) => TransportCause::Connect(None, Some(cause)),
                None => TransportCause::Interrupted(cause, None),
            })
        })
    }

    /// Reads the body up to its maximum size. Returns the part that has arrived and, if the body is incomplete, the error. A
    /// connection with unread data is not used again.
    async fn read_body(
        &self,
        incoming_response: &mut reqwest::Response,
        deadline: &mut Deadline<'_>,
    ) -> (Bytes, Option<TransportError>) {
        let is_success = incoming_response.status().is_success();
        let limit = match is_success {
            true => self.max_response_bytes,
            false => self.max_response_bytes.min(MAX_ERROR_BODY),
        };
        let too_large = || Some(TransportError::new(TransportCause::TooLarge(limit)));
        let length = incoming_response.content_length().unwrap_or(0);
        if is_success && length > limit {
            return (Bytes::new(), too_large());
        }
        let capacity = usize::try_from(length.min(MAX_RESERVED_BODY));
        let mut body = Vec::with_capacity(capacity.unwrap_or(0));
        let failure = loop {
            match deadline.run_in_time(pin!(incoming_response.chunk())).await {
                Some(Ok(Some(chunk))) => {
                    let remaining_bytes =
                        usize::try_from(limit - body.len() as u64).unwrap_or(usize::MAX);
                    body.extend_from_slice(chunk.get(..remaining_bytes).unwrap_or(&chunk));
                    if chunk.len() > remaining_bytes {
                        break too_large();
                    }
                }
                Some(Ok(None)) => break None,
                Some(Err(error)) => {
                    let cause =
                        LibraryError::from_error(&error.without_url(), &|text| self.mask(text));
                    break Some(TransportError::new(TransportCause::Interrupted(
                        cause, None,
                    )));
                }
                None => break Some(self.make_timeout_error(SentPart::Possibly)),
            }
        };
        (body.into(), failure)
    }

    fn make_timeout_error(&self, sent: SentPart) -> TransportError {
        TransportError::new(TransportCause::Timeout(self.limit, sent))
    }

    /// Masks the URL, which contains the identifier, and the service key in an error message of a library.
    fn mask(&self, text: &str) -> String {
        let text = text.replace(self.request.url.as_str(), "[URL]");
        let text = text.replace(self.request.url.path(), "[path]");
        self.key.redactor.mask(&text)
    }

    /// Returns the error that explains why there is no response.
    fn explain_error(&self, error: reqwest::Error) -> TransportError {
        let redactor = &self.key.redactor;
        let settings = &self.pools.settings;
        // Error messages never show the URL, which contains the identifier.
        let error = error.without_url();
        // reqwest's own message says only that it was sending a request.
        let cause = LibraryError::from_error(error.source().unwrap_or(&error), &|text| {
            redactor.mask(text)
        });
        let has_proxy = matches!(settings.route, Route::Proxy(_));
        let message = hyper_errors::find_connect_failure(&error, &self.request.url, has_proxy);
        let was_asked_for_certificate = self.progress.was_asked_for_certificate();
        let has_identity = settings.tls.identity.is_some();
        let tls_message = rustls_errors::find_permanent_failure(
            &error,
            was_asked_for_certificate,
            has_identity,
            redactor,
        );
        let failure = match (message, tls_message) {
            (Some(message), None) => Some(ConnectFailure::temporary(message)),
            (Some(message), Some(_)) | (None, Some(message)) => {
                Some(ConnectFailure::permanent(message))
            }
            (None, None) => None,
        };
        TransportError::new(if let Some(failure) = failure {
            // dealkit's own message about a permanent failure is complete without the library's.
            let cause = (!failure.is_permanent).then_some(cause);
            TransportCause::Connect(Some(failure), cause)
        } else if error.is_connect() && error.is_timeout() {
            TransportCause::Timeout(settings.connect_timeout, SentPart::Nothing)
        } else if error.is_connect() {
            TransportCause::Connect(None, Some(cause))
        } else if error.is_builder() {
            TransportCause::Unsendable(cause.to_string())
        } else if ended_before_request(&error)
            || was_not_processed(&error)
            || self.progress.is_withheld()
        {
            TransportCause::NotProcessed(cause)
        } else {
            let mut transport_error =
                TransportError::new(match hyper_errors::find_malformed_part(&error) {
                    Some(part) => TransportCause::Malformed(part, cause),
                    None => {
                        let advice = rustls_errors::advise_by_text(
                            &error,
                            was_asked_for_certificate,
                            has_identity,
                        );
                        TransportCause::Interrupted(cause, advice)
                    }
                });
            transport_error.0.had_stale_connection =
                self.progress.reused_connection() && !is_reset_stream(&error);
            return transport_error;
        })
    }
}

/// A request's body that is withheld if the request may no longer be sent. Without its body, a request has no effect.
struct GuardedBody {
    body: Full<Bytes>,
    may_send: MaySend,
    progress: Progress,
}

/// The error of a withheld body.
#[derive(Debug, thiserror::Error)]
#[error("the request was withheld")]
pub(super) struct Withheld;

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = Withheld;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withheld>>> {
        if !(self.may_send)() {
            // hyper reports this error to the connection. To the request, it reports only that the connection is closed.
            self.progress.record_withheld();
            return Poll::Ready(Some(Err(Withheld)));
        }
        let body = Pin::new(&mut self.body).poll_frame(context);
        body.map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The end of an attempt's time.
struct Deadline<'a> {
    timer: Pin<&'a mut Sleep>,
    /// True if the process was suspended at the deadline, which was then extended by [`GRACE_PERIOD`].
    is_extended: bool,
}

impl Deadline<'_> {
    /// Runs a future, and returns `None` if the deadline passes first. The caller pins the future, because moving it here would
    /// double the size of every call.
    async fn run_in_time<F: Future>(&mut self, mut future: Pin<&mut F>) -> Option<F::Output> {
        loop {
            match select(future.as_mut(), self.timer.as_mut()).await {
                Either::Left((output, _)) => return Some(output),
                Either::Right(_) => {
                    let now = Instant::now();
                    if self.is_extended || now < self.timer.deadline() + LATE_WAKE_UP {
                        return None;
                    }
                    self.is_extended = true;
                    self.timer.as_mut().reset(now + GRACE_PERIOD);
                }
            }
        }
    }
}
