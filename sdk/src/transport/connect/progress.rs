//! Progress of a request, which determines whether the service can have received any part of it.

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
    /// The progress of the request that is being polled, for the connector to update.
    static CURRENT: Arc<ProgressState>;
}

/// Progress of a request: whether it waits for a connection, whether it reuses one, and the status of its response. Clones share
/// their state.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<ProgressState>);

#[derive(Default)]
struct ProgressState {
    /// The status of the response, or 0 until it arrives.
    status: AtomicU16,
    /// True if the connector was running when the request was last polled.
    is_connecting: AtomicBool,
    /// True if the connector has run for the request.
    has_connected: AtomicBool,
    has_certificate_request: AtomicBool,
    /// True if the body was withheld. Without its body, the request has no effect.
    is_withheld: AtomicBool,
}

/// Returns true if a request that has its connection may still be sent.
pub(crate) type MaySend = Arc<dyn Fn() -> bool + Send + Sync>;

/// Records that the service asks for a client certificate, for the request that waits for the connection.
pub(super) fn record_certificate_request() {
    let _ = CURRENT.try_with(|progress| {
        progress
            .has_certificate_request
            .store(true, Ordering::Relaxed);
    });
}

impl Progress {
    /// Runs `request`, and records before each poll whether the request waits for a connection.
    ///
    /// The connector runs inside the request's future while the request waits for a connection. If the request was polled but
    /// the connector was not, the request has a new or a pooled connection.
    pub(crate) async fn observe_request<F: Future>(&self, request: F) -> F::Output {
        let mut request = pin!(CURRENT.scope(self.0.clone(), request));
        poll_fn(|context| {
            self.0.is_connecting.store(false, Ordering::Relaxed);
            request.as_mut().poll(context)
        })
        .await
    }

    /// Runs a step that precedes the request, and records meanwhile that no part of the request was sent.
    pub(crate) async fn observe_preparation<F: Future>(&self, preparation: F) -> F::Output {
        let mut preparation = pin!(preparation);
        poll_fn(|context| {
            let poll = preparation.as_mut().poll(context);
            self.0
                .is_connecting
                .store(poll.is_pending(), Ordering::Relaxed);
            poll
        })
        .await
    }

    /// Returns true if the request waited for a connection when it was last polled: no part of it was sent.
    pub(crate) fn is_connecting(&self) -> bool {
        self.0.is_connecting.load(Ordering::Relaxed)
    }

    /// Records the status when the head of the response has arrived.
    pub(crate) fn record_status(&self, status: StatusCode) {
        self.0.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Records that the body was withheld.
    pub(crate) fn record_withheld(&self) {
        self.0.is_withheld.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_withheld(&self) -> bool {
        self.0.is_withheld.load(Ordering::Relaxed)
    }

    /// Returns the outcome that the request would have if it ended now.
    pub(crate) fn outcome(&self) -> Outcome {
        match StatusCode::from_u16(self.0.status.load(Ordering::Relaxed)) {
            Ok(status) => Outcome::from_status(status),
            Err(_) if self.is_connecting() || self.is_withheld() => Outcome::NotSent,
            Err(_) => Outcome::Unknown,
        }
    }

    /// Returns true if the request found an idle connection.
    pub(crate) fn reused_connection(&self) -> bool {
        !self.0.has_connected.load(Ordering::Relaxed)
    }

    /// Returns true if the service requested a client certificate when a connection was made for the request.
    pub(crate) fn was_asked_for_certificate(&self) -> bool {
        self.0.has_certificate_request.load(Ordering::Relaxed)
    }
}

/// Layer around reqwest's connector: updates the [`Progress`] of the request, and stops making a connection once the pool is
/// dropped.
#[derive(Clone)]
pub(crate) struct ConnectorLayer {
    /// Closed when the pool is dropped.
    pool_alive: watch::Receiver<()>,
}

impl ConnectorLayer {
    /// Returns the layer, and the sender that must be dropped with the pool.
    pub(crate) fn new() -> (Self, watch::Sender<()>) {
        let (dropped_with_pool, pool_alive) = watch::channel(());
        (Self { pool_alive }, dropped_with_pool)
    }
}

impl<S> Layer<S> for ConnectorLayer {
    type Service = Connector<S>;

    fn layer(&self, inner: S) -> Connector<S> {
        Connector {
            inner: Arc::new(inner),
            pool_alive: self.pool_alive.clone(),
        }
    }
}

/// A connector that updates the [`Progress`] of the request.
#[derive(Clone)]
pub(crate) struct Connector<S> {
    /// Shared, because reqwest clones the connector several times per call, and few of the clones make a connection.
    inner: Arc<S>,
    pool_alive: watch::Receiver<()>,
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
        // `call` checks the readiness of the clone that makes the connection.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let mut inner = S::clone(&self.inner);
        let mut connect_future = Box::pin(async move {
            poll_fn(|context| inner.poll_ready(context)).await?;
            inner.call(target).await
        });
        let mut pool_alive = self.pool_alive.clone();
        let mut pool_dropped = Box::pin(async move { pool_alive.changed().await.is_err() });
        Box::pin(poll_fn(move |context| {
            let poll = match connect_future.as_mut().poll(context) {
                // If the request has found an idle connection, reqwest finishes the new connection in the background. Without
                // this check, reqwest would do so even after the pool is dropped, and the pool's idle connections would stay
                // open.
                Poll::Pending if pool_dropped.as_mut().poll(context).is_ready() => {
                    Poll::Ready(Err("the client is no longer used".into()))
                }
                poll => poll.map_err(Into::into),
            };
            // A connector in the background runs outside of any request, and has no progress to update.
            let _ = CURRENT.try_with(|progress| {
                progress
                    .is_connecting
                    .store(poll.is_pending(), Ordering::Relaxed);
                progress.has_connected.store(true, Ordering::Relaxed);
            });
            poll
        }))
    }
}
