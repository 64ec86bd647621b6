//! How far a request has come, which decides whether the service can have seen any of it.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering},
    },
    task::Poll,
};

use futures_util::task::AtomicWaker;
use http::{Request, StatusCode};

use crate::error::outcome::Outcome;

tokio::task_local! {
    /// What the connector tells the request on whose behalf it is polled.
    static CONNECTING: Arc<Connecting>;
}

/// Tracks whether a request still waits for its connection, whether the connection is a reused one, and which
/// status the response has.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    connecting: Arc<Connecting>,
}

#[derive(Default)]
struct Connecting {
    /// The status of the response, or 0 until it arrives.
    status: AtomicU16,
    /// Whether the connector was running when the request was last polled.
    now: AtomicBool,
    /// Whether it ever ran.
    ever: AtomicBool,
    /// How many interim responses (1xx) have come.
    interim: AtomicU32,
    /// Wakes the request when there are too many of them.
    waker: AtomicWaker,
    /// Whether the service asked for a client certificate.
    #[cfg(feature = "rustls-no-provider")]
    asked_for_certificate: AtomicBool,
}

/// The maximum number of interim responses (1xx) to a request. Services send one or two, for `100 Continue` and early
/// hints; a service that sends them without end would keep its client busy.
const MOST_INTERIM: u32 = 100;

/// The service sent more than [`MOST_INTERIM`] interim responses.
#[derive(Debug)]
pub(crate) struct TooManyInterim;

impl fmt::Display for TooManyInterim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the service sent more than {MOST_INTERIM} interim responses (1xx)"
        )
    }
}

impl std::error::Error for TooManyInterim {}

/// Tells the request that is waiting for a connection that the service asks for a client certificate.
#[cfg(feature = "rustls-no-provider")]
pub(super) fn asked_for_certificate() {
    let _ = CONNECTING.try_with(|connecting| {
        connecting
            .asked_for_certificate
            .store(true, Ordering::Relaxed);
    });
}

impl Progress {
    /// Counts the interim responses to `request`.
    pub(crate) fn count_interim<B>(&self, request: &mut Request<B>) {
        let connecting = Arc::clone(&self.connecting);
        hyper::ext::on_informational(request, move |_| {
            if connecting.interim.fetch_add(1, Ordering::Relaxed) == MOST_INTERIM {
                connecting.waker.wake();
            }
        });
    }

    /// Polls `request` and records what it is waiting for. Gives up when there are too many interim responses.
    ///
    /// The connector runs inside the request's own future while the request waits for a connection. If the request was
    /// polled but the connector was not, the request has a connection, a new or a pooled one.
    pub(crate) async fn watch<F: Future>(&self, request: F) -> Result<F::Output, TooManyInterim> {
        let mut request = pin!(CONNECTING.scope(self.connecting.clone(), request));
        poll_fn(|context| {
            self.connecting.waker.register(context.waker());
            if self.connecting.interim.load(Ordering::Relaxed) > MOST_INTERIM {
                return Poll::Ready(Err(TooManyInterim));
            }
            self.connecting.now.store(false, Ordering::Relaxed);
            request.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Whether the request was still waiting for a connection when it was last polled, so that no part of it was sent.
    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting.now.load(Ordering::Relaxed)
    }

    /// Records the response, of which only the head has arrived.
    pub(crate) fn responded(&self, status: StatusCode) {
        self.connecting
            .status
            .store(status.as_u16(), Ordering::Relaxed);
    }

    /// What the request has done or may have done so far.
    pub(crate) fn outcome(&self) -> Outcome {
        match StatusCode::from_u16(self.connecting.status.load(Ordering::Relaxed)) {
            Ok(status) => Outcome::of_status(status),
            Err(_) if self.is_connecting() => Outcome::NotSent,
            Err(_) => Outcome::Unknown,
        }
    }

    /// Whether the request found an idle connection, so that none was begun for it.
    pub(crate) fn found_kept_connection(&self) -> bool {
        !self.connecting.ever.load(Ordering::Relaxed)
    }

    /// Whether the service asked for a client certificate when a connection was made for the request.
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) fn was_asked_for_certificate(&self) -> bool {
        self.connecting
            .asked_for_certificate
            .load(Ordering::Relaxed)
    }
}

/// Tells the request on whose behalf a connection is being made that it waits for one.
pub(super) async fn connecting<F: Future>(connection: F) -> F::Output {
    let mut connection = pin!(connection);
    poll_fn(|context| {
        let poll = connection.as_mut().poll(context);
        // A connection that outlives its request is made in the background, not on behalf of any request.
        let _ = CONNECTING.try_with(|connecting| {
            connecting.now.store(poll.is_pending(), Ordering::Relaxed);
            connecting.ever.store(true, Ordering::Relaxed);
        });
        poll
    })
    .await
}
