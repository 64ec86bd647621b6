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
/// A message to `stop_receiver` starts a graceful shutdown: open connections may finish within the shutdown timeout. If its sender
/// is dropped, all connections end immediately. Connections beyond the limit wait in the operating system's queue.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop_receiver: oneshot::Receiver<()>,
) {
    let stop_token = CancellationToken::new();
    let serve = |stream| connection::serve(stream, Arc::clone(&shared), stop_token.clone());
    let mut open_connections = JoinSet::new();
    let stop_result = loop {
        tokio::select! {
            stop_result = &mut stop_receiver => break stop_result,
            Some(_) = open_connections.join_next() => {}
            stream = accept(&listener), if open_connections.len() < shared.settings.max_connections.max(1) => {
                open_connections.spawn(serve(stream));
            }
        }
    };
    if stop_result.is_ok() {
        // Stop listening before closing connections, so that clients whose connections are closed cannot reconnect.
        drop(listener);
        stop_token.cancel();
        let all_closed = async { while open_connections.join_next().await.is_some() {} };
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
