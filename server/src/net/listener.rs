//! The accept loop: how many connections at once, what an accept error means, and how it all ends.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::net::conn::{self, Shared};

/// How long to wait when the system cannot give us a descriptor or a buffer. Connections that end free some. (A caller may also
/// be gone before it was accepted.)
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Accepts connections until `stop` is sent, then lets the open ones end within the shutdown timeout. When
/// `stop` is dropped instead, everything ends at once. While as many are open as there may be, others wait in the system's
/// queue.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: oneshot::Receiver<()>,
) {
    let stopping = CancellationToken::new();
    let connection = |stream| conn::serve(stream, Arc::clone(&shared), stopping.clone());
    let mut open = JoinSet::new();
    let stopped = loop {
        tokio::select! {
            stopped = &mut stop => break stopped,
            Some(_) = open.join_next() => {}
            stream = accept(&listener), if open.len() < shared.settings.max_connections.max(1) => {
                open.spawn(connection(stream));
            }
        }
    };
    if stopped.is_ok() {
        // New connections are refused before the old ones are told: a caller that finds its connection closed and
        // reconnects must not be let in again.
        drop(listener);
        stopping.cancel();
        let all_ended = async { while open.join_next().await.is_some() {} };
        let _ = timeout(shared.settings.shutdown_timeout, all_ended).await;
    }
}

/// Accepts the next connection, whatever goes wrong in the meantime.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Responses are small and written at once: nothing is gained by holding them back.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
