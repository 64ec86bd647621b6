//! The accept loop: how many connections at once, what an accept error means, and how it all ends.

use std::{io, iter, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::net::conn::{self, Shared};

/// How long to wait when the system cannot give us a descriptor or a buffer. Connections that end free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop` is sent, then lets the open ones end within `shutdown_timeout`. When
/// `stop` is dropped instead, everything ends at once. While `max_connections` are open, others wait in the system's
/// queue.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    max_connections: usize,
    shutdown_timeout: Duration,
    mut stop: oneshot::Receiver<()>,
) {
    let (stopping, asked_to_stop) = watch::channel(false);
    let connection = |stream| conn::serve(stream, Arc::clone(&shared), asked_to_stop.clone());
    let mut open = JoinSet::new();
    let stopped = loop {
        tokio::select! {
            stopped = &mut stop => break stopped,
            Some(_) = open.join_next() => {}
            stream = accept(&listener), if open.len() < max_connections => {
                open.spawn(connection(stream));
            }
        }
    };
    if stopped.is_ok() {
        // Callers whose connections the system has already let in may have sent their requests.
        let room = max_connections.saturating_sub(open.len());
        for stream in queued(listener).take(room) {
            open.spawn(connection(stream));
        }
        // New connections are refused before the old ones are told: a caller that finds its connection closed and
        // reconnects must not be let in again.
        stopping.send_replace(true);
        let all_ended = async { while open.join_next().await.is_some() {} };
        let _ = timeout(shutdown_timeout, all_ended).await;
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
            Err(error) if is_about_one_connection(&error) => {}
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The connections that are already queued. `listener` is closed after them.
fn queued(listener: TcpListener) -> impl Iterator<Item = TcpStream> {
    let listener = listener.into_std().ok();
    iter::from_fn(move || {
        let (stream, _) = listener.as_ref()?.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.set_nodelay(true);
        TcpStream::from_std(stream).ok()
    })
}

/// Whether the error concerns only a caller that was gone before it was accepted. Every other error is our own, such as
/// too many open files, and trying again at once would only waste processor time.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}
