//! How far a request has come, which decides whether the service can have seen any of it.

use std::{
    error::Error,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    task::{Context, Poll},
};

use http::StatusCode;
use tokio::sync::watch;
use tower_layer::Layer;
use tower_service::Service;

use crate::transport::outcome::Outcome;

tokio::task_local! {
    /// What the connector tells the request on whose behalf it is polled.
    static CONNECTING: Arc<Connecting>;
}

/// Tracks whether a request still waits for its connection, whether the connection is a reused one, and which
/// status the response has.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Connecting>);

#[derive(Default)]
struct Connecting {
    /// The status of the response, or 0 until it arrives.
    status: AtomicU16,
    /// Whether the connector was running when the request was last polled.
    now: AtomicBool,
    /// Whether it ever ran.
    ever: AtomicBool,
    asked_for_certificate: AtomicBool,
    /// Whether the body was withheld, without which the request has no effect.
    withheld: AtomicBool,
}

/// Decides, once a request has a connection, whether it may still leave.
pub(crate) type MayLeave = Arc<dyn Fn() -> bool + Send + Sync>;

/// Tells the request that is waiting for a connection that the service asks for a client certificate.
pub(super) fn asked_for_certificate() {
    let _ = CONNECTING.try_with(|connecting| {
        connecting
            .asked_for_certificate
            .store(true, Ordering::Relaxed);
    });
}

impl Progress {
    /// Polls `request` and records what it is waiting for.
    ///
    /// The connector runs inside the request's own future while the request waits for a connection. If the request was
    /// polled but the connector was not, the request has a connection, a new or a pooled one.
    pub(crate) async fn watch<F: Future>(&self, request: F) -> F::Output {
        let mut request = pin!(CONNECTING.scope(self.0.clone(), request));
        poll_fn(|context| {
            self.0.now.store(false, Ordering::Relaxed);
            request.as_mut().poll(context)
        })
        .await
    }

    /// Polls what has to be done before the request is sent.
    pub(crate) async fn not_sent_during<F: Future>(&self, before: F) -> F::Output {
        let mut before = pin!(before);
        poll_fn(|context| {
            let poll = before.as_mut().poll(context);
            self.0.now.store(poll.is_pending(), Ordering::Relaxed);
            poll
        })
        .await
    }

    /// Whether the request was still waiting for a connection when it was last polled, so that no part of it was sent.
    pub(crate) fn is_connecting(&self) -> bool {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Records the response, of which only the head has arrived.
    pub(crate) fn responded(&self, status: StatusCode) {
        self.0.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Records that the body was withheld.
    pub(crate) fn withhold(&self) {
        self.0.withheld.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_withheld(&self) -> bool {
        self.0.withheld.load(Ordering::Relaxed)
    }

    /// What the request has done or may have done so far.
    pub(crate) fn outcome(&self) -> Outcome {
        match StatusCode::from_u16(self.0.status.load(Ordering::Relaxed)) {
            Ok(status) => Outcome::of_status(status),
            Err(_) if self.is_connecting() || self.is_withheld() => Outcome::NotSent,
            Err(_) => Outcome::Unknown,
        }
    }

    /// Whether the request found an idle connection, so that none was begun for it.
    pub(crate) fn found_kept_connection(&self) -> bool {
        !self.0.ever.load(Ordering::Relaxed)
    }

    /// Whether the service asked for a client certificate when a connection was made for the request.
    pub(crate) fn was_asked_for_certificate(&self) -> bool {
        self.0.asked_for_certificate.load(Ordering::Relaxed)
    }
}

/// Wraps the connector, so that a [`Progress`] learns when it is running, and no connection is made any longer once
/// nobody can use it.
#[derive(Clone)]
pub(crate) struct ConnectorLayer {
    /// Closed when the pool is dropped.
    in_use: watch::Receiver<()>,
}

impl ConnectorLayer {
    /// The layer, and what must be dropped with the pool.
    pub(crate) fn new() -> (Self, watch::Sender<()>) {
        let (dropped_with_pool, in_use) = watch::channel(());
        (Self { in_use }, dropped_with_pool)
    }
}

impl<S> Layer<S> for ConnectorLayer {
    type Service = Connector<S>;

    fn layer(&self, inner: S) -> Connector<S> {
        Connector {
            inner: Arc::new(inner),
            in_use: self.in_use.clone(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Connector<S> {
    /// Shared: reqwest clones the connector several times per call, and few of the clones make a connection.
    inner: Arc<S>,
    in_use: watch::Receiver<()>,
}

impl<S, Target> Service<Target> for Connector<S>
where
    S: Service<Target> + Clone + Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::Future: Send,
    Target: Send + 'static,
{
    type Response = S::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The readiness of the clone that makes the connection is checked instead.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let mut inner = S::clone(&self.inner);
        let mut connecting = Box::pin(async move {
            poll_fn(|context| inner.poll_ready(context)).await?;
            inner.call(target).await
        });
        let mut in_use = self.in_use.clone();
        let mut unused = Box::pin(async move { in_use.changed().await.is_err() });
        Box::pin(poll_fn(move |context| {
            let poll = match connecting.as_mut().poll(context) {
                // A request that has found another connection leaves its own to be made in the background. That would
                // go on after the pool is dropped, and keep the pool's idle connections open.
                Poll::Pending if unused.as_mut().poll(context).is_ready() => {
                    Poll::Ready(Err("the client is no longer used".into()))
                }
                poll => poll.map_err(Into::into),
            };
            // A connection that outlives its request is made in the background, not on behalf of any request.
            let _ = CONNECTING.try_with(|connecting| {
                connecting.now.store(poll.is_pending(), Ordering::Relaxed);
                connecting.ever.store(true, Ordering::Relaxed);
            });
            poll
        }))
    }
}
