//! The accept loop: the limit on open connections, accept errors, and the shutdown.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::net::connection::{self, Shared};

/// Pause after a failed accept. The usual cause is a lack of file descriptors, which closing connections frees.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Accepts connections until the server stops.
///
/// Sending on `stop` starts a graceful shutdown: open connections may finish within the shutdown timeout. Dropping `stop` ends
/// all connections immediately. Beyond the limit on open connections, new ones wait in the operating system's queue.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: oneshot::Receiver<()>,
) {
    let stopping = CancellationToken::new();
    let serve = |stream| connection::serve(stream, Arc::clone(&shared), stopping.clone());
    let mut open = JoinSet::new();
    let stopped = loop {
        tokio::select! {
            stopped = &mut stop => break stopped,
            Some(_) = open.join_next() => {}
            stream = accept(&listener), if open.len() < shared.settings.max_connections.max(1) => {
                open.spawn(serve(stream));
            }
        }
    };
    if stopped.is_ok() {
        // Stop listening before closing connections, so that clients whose connections are closed cannot reconnect.
        drop(listener);
        stopping.cancel();
        let all_closed = async { while open.join_next().await.is_some() {} };
        let _ = timeout(shared.settings.shutdown_timeout, all_closed).await;
    }
}

/// Accepts the next connection. Retries after errors.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Send small responses immediately: Nagle's algorithm would delay them.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
