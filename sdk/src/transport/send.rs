//! One request out, one whole response back.

use std::{
    error::Error as StdError,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout_at},
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
        error::{Sent, TransportCause, TransportError},
        key::{self, Key},
        redact::Redactor,
        response::{HttpResponse, TimeLeft},
    },
};

/// How much of an error's body is read, in bytes: it need not be whole to be useful.
const ERROR_BODY_READ: u64 = 1024 * 1024;

/// The delay with which an attempt must notice its deadline to assume that the process was stopped, and the time that it then has to
/// read what arrived meanwhile.
const LATE: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_millis(100);

/// How often, and for how long, a request that finds no free descriptor waits for one.
pub(crate) const DESCRIPTOR_WAITS: u32 = 40;
pub(crate) const DESCRIPTOR_WAIT: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// With an empty key, in whose place comes the one of each attempt.
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
        *request.headers_mut() = self.headers(key);
        Ok(request)
    }

    fn headers(&self, key: &Key) -> HeaderMap {
        let mut headers = HeaderMap::clone(&self.headers);
        headers.insert(&key::HEADER, key.header.clone());
        if self.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(wire::JSON));
        }
        headers
    }

    /// Masks in the text of a library below what it may show of this request: the URL, which contains the identifier, and
    /// the key.
    fn mask(&self, text: &str, redactor: &Redactor) -> String {
        let text = text.replace(self.url.as_str(), "[URL]");
        redactor.mask(&text.replace(self.url.path(), "[path]"))
    }

    fn to_reqwest(
        &self,
        key: &Key,
        may_send: Option<&MaySend>,
        progress: &Progress,
    ) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = self.headers(key);
        if let Some(body) = &self.body {
            let body = match may_send {
                None => body.clone().into(),
                Some(may_send) => reqwest::Body::wrap(GuardedBody {
                    body: Full::new(body.clone()),
                    may_send: Arc::clone(may_send),
                    progress: progress.clone(),
                }),
            };
            *request.body_mut() = Some(body);
        }
        request
    }
}

/// Sends the request once. A response that is not a success, or larger than `max_response_bytes`, is an error here.
pub(crate) async fn attempt(
    (pools, runtime): (&Pools, &Handle),
    (request, may_send): (&HttpRequest, Option<MaySend>),
    key: &Key,
    deadline: Deadline,
    max_response_bytes: u64,
    progress: &Progress,
) -> Result<HttpResponse, TransportError> {
    let redactor = &key.redactor;
    let sent = match pools.transport() {
        None => {
            let sent = send_over(
                (pools, runtime),
                (request, may_send.as_ref()),
                key,
                progress,
            );
            deadline.bound(sent).await
        }
        Some(transport) => {
            let sent = send_through(transport, (request, may_send.as_ref()), key, progress);
            let sent = deadline.bound(sent).await;
            sent.map(|sent| sent.map(|incoming| (incoming, None)))
        }
    };
    // The shard counts the request until the whole response has arrived.
    let (mut incoming, _shard) = match sent {
        Some(Ok(sent)) => sent,
        Some(Err(error)) => return Err(error),
        None if progress.is_connecting() => return Err(deadline.missed(Sent::Nothing)),
        None => return Err(deadline.missed(Sent::Possibly)),
    };
    progress.record_status(incoming.status());
    let mut response = HttpResponse {
        status: incoming.status(),
        version: incoming.version(),
        headers: std::mem::take(incoming.headers_mut()),
        body: Bytes::new(),
        attempts: 1,
        redactor: redactor.clone(),
        left: deadline.left(),
    };
    let is_success = response.status.is_success();
    let limit = if is_success {
        max_response_bytes
    } else {
        max_response_bytes.min(ERROR_BODY_READ)
    };
    let mask = |text: &str| request.mask(text, redactor);
    let (body, failure) = match incoming.content_length() {
        Some(length) if is_success && length > limit => {
            let too_large = TransportError::new(TransportCause::TooLarge(limit));
            (Bytes::new(), Some(too_large))
        }
        _ => read_body(&mut incoming, limit, &deadline, mask).await,
    };
    response.body = body;
    response.left = deadline.left();
    if !is_success {
        // The status is enough, however much of the body has arrived.
        return Err(TransportError::from_response(response, &request.url));
    }
    match failure {
        // What has arrived is kept, even if there should have been more.
        Some(error) => Err(error.with_response(response)),
        None => Ok(response),
    }
}

/// A request's body that is withheld if the request may no longer leave. Without its body, a request has no effect.
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
            // hyper reports this error to the connection, and to the request only that the connection is closed.
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
pub(crate) struct Deadline {
    at: Instant,
    /// The limit that determines it, as the caller knows it.
    limit: Duration,
    /// The end of the time for what arrived while the process was stopped, if it was.
    grace: OnceLock<Instant>,
}

impl Deadline {
    pub(crate) fn after(time: Duration, limit: Duration) -> Self {
        let now = Instant::now();
        // Some thirty years stand for "never" if the clock cannot count that far.
        let never = Duration::from_secs(1_000_000_000);
        let at = now.checked_add(time).unwrap_or(now + never);
        Self {
            at,
            limit,
            grace: OnceLock::new(),
        }
    }

    async fn bound<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        if let Ok(output) = timeout_at(self.at, &mut future).await {
            return Some(output);
        }
        let now = Instant::now();
        if self.grace.get().is_none() && now < self.at + LATE {
            return None;
        }
        let until = self.grace.get_or_init(|| now + GRACE);
        timeout_at(*until, future).await.ok()
    }

    fn left(&self) -> TimeLeft {
        TimeLeft {
            time: self.at.saturating_duration_since(Instant::now()),
            limit: self.limit,
        }
    }

    fn missed(&self, sent: Sent) -> TransportError {
        TransportError::new(TransportCause::Timeout(self.limit, sent))
    }
}

/// Reads the body up to the limit, and returns what arrived, and why there is no more, if there should be. A connection
/// with unread data is not used again.
async fn read_body(
    incoming: &mut reqwest::Response,
    limit: u64,
    deadline: &Deadline,
    mask: impl Fn(&str) -> String,
) -> (Bytes, Option<TransportError>) {
    let mut body = BytesMut::new();
    if let Some(length) = incoming.content_length() {
        // A declared length is only a promise, so no more memory than for a usual body is reserved for it.
        body.reserve(usize::try_from(length.min(64 * 1024)).unwrap_or(0));
    }
    let failure = loop {
        match deadline.bound(incoming.chunk()).await {
            Some(Ok(Some(chunk))) => {
                let room = usize::try_from(limit - body.len() as u64).unwrap_or(usize::MAX);
                body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                if chunk.len() > room {
                    break Some(TransportError::new(TransportCause::TooLarge(limit)));
                }
            }
            Some(Ok(None)) => break None,
            Some(Err(error)) => {
                let cause = LibraryError::from_error(&error.without_url(), &mask);
                break Some(TransportError::new(TransportCause::Interrupted(
                    cause, None,
                )));
            }
            None => break Some(deadline.missed(Sent::Possibly)),
        }
    };
    (body.freeze(), failure)
}

/// Sends the request over a connection of dealkit's own, and returns the head of its response, and the pool
/// shard that receives the rest.
async fn send_over(
    (pools, runtime): (&Pools, &Handle),
    (request, may_send): (&HttpRequest, Option<&MaySend>),
    key: &Key,
    progress: &Progress,
) -> Result<(reqwest::Response, Option<Arc<PoolShard>>), TransportError> {
    let mut waits = 0;
    loop {
        let shard = pools
            .find_shard(runtime, &request.method)
            .map_err(|message| {
                let failure = ConnectFailure::permanent(message);
                TransportError::new(TransportCause::Connect(Some(failure), None))
            })?;
        let sent = shard
            .http
            .execute(request.to_reqwest(key, may_send, progress));
        let error = match progress.observe(sent).await {
            Ok(response) => return Ok((response, Some(shard))),
            Err(error) => error,
        };
        if waits == DESCRIPTOR_WAITS || !hyper_errors::lacks_descriptor(&error) {
            return Err(transport_error(error, request, progress, pools, key));
        }
        waits += 1;
        pools.close_idle();
        progress.observe_preparation(sleep(DESCRIPTOR_WAIT)).await;
    }
}

async fn send_through(
    transport: &Transport,
    (request, may_send): (&HttpRequest, Option<&MaySend>),
    key: &Key,
    progress: &Progress,
) -> Result<reqwest::Response, TransportError> {
    let sent = transport
        .send(request.to_http(key)?, may_send, progress)
        .await;
    sent.map_err(|error| {
        let cause = LibraryError::from_error(&*error, &|text| request.mask(text, &key.redactor));
        TransportError::new(match find_source::<TransportNotSent>(&*error) {
            Some(_) => TransportCause::Connect(None, Some(cause)),
            None => TransportCause::Interrupted(cause, None),
        })
    })
}

/// Distinguishes the failures without a response.
fn transport_error(
    error: reqwest::Error,
    request: &HttpRequest,
    progress: &Progress,
    pools: &Pools,
    key: &Key,
) -> TransportError {
    let redactor = &key.redactor;
    // The URL contains the identifier, which error texts never show.
    let error = error.without_url();
    // reqwest's own text says only that it was sending a request.
    let cause = LibraryError::from_error(error.source().unwrap_or(&error), &|text| {
        redactor.mask(text)
    });
    let has_proxy = matches!(pools.settings.route, Route::Proxy(_));
    let message = hyper_errors::find_connect_failure(&error, &request.url, has_proxy);
    let was_asked = progress.was_asked_for_certificate();
    let has_identity = pools.settings.tls.identity.is_some();
    let of_tls = rustls_errors::find_permanent_failure(&error, was_asked, has_identity, redactor);
    let failure = match (message, of_tls) {
        (Some(message), None) => Some(ConnectFailure::temporary(message)),
        (Some(message), Some(_)) | (None, Some(message)) => {
            Some(ConnectFailure::permanent(message))
        }
        (None, None) => None,
    };
    TransportError::new(if let Some(failure) = failure {
        // The message about a permanent failure is complete without the libraries' texts.
        let cause = (!failure.is_permanent).then_some(cause);
        TransportCause::Connect(Some(failure), cause)
    } else if error.is_connect() && error.is_timeout() {
        TransportCause::Timeout(pools.settings.connect_timeout, Sent::Nothing)
    } else if error.is_connect() {
        TransportCause::Connect(None, Some(cause))
    } else if error.is_builder() {
        TransportCause::Unsendable(cause.to_string())
    } else if ended_before_request(&error) || was_not_processed(&error) || progress.is_withheld() {
        TransportCause::NotProcessed(cause)
    } else {
        let mut broken = TransportError::new(match hyper_errors::find_malformed_part(&error) {
            Some(place) => TransportCause::Malformed(place, cause),
            None => {
                let advice = rustls_errors::advise_by_text(&error, was_asked, has_identity);
                TransportCause::Interrupted(cause, advice)
            }
        });
        broken.0.was_stale = progress.reused_connection() && !is_reset_stream(&error);
        return broken;
    })
}
