//! The accept loop: how many connections at once, what an accept error means, and how it all ends.

use std::{io, iter, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::conn::{self, Shared};

/// How long to wait when the system cannot give us a descriptor or a buffer. Connections that end free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop` is sent, then lets the open ones end within `shutdown_timeout`. When
/// `stop` is dropped instead, everything ends at once. Every other connection is served on the runtime `second`.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    second: Handle,
    max_connections: usize,
    shutdown_timeout: Duration,
    mut stop: oneshot::Receiver<()>,
) {
    let (stopping, asked_to_stop) = watch::channel(false);
    let mut connections = Connections {
        open: JoinSet::new(),
        shared,
        second,
        is_seconds_turn: false,
        asked_to_stop,
    };
    let stopped = loop {
        tokio::select! {
            stopped = &mut stop => break stopped,
            // Those that ended make room. Connections beyond the limit wait in the system's queue.
            Some(_) = connections.open.join_next() => {}
            stream = accept(&listener), if connections.open.len() < max_connections => {
                connections.add(stream);
            }
        }
    };
    if stopped.is_ok() {
        // Callers that the system has let in already may have sent their requests.
        let room = max_connections.saturating_sub(connections.open.len());
        for stream in queued(listener).take(room) {
            connections.add(stream);
        }
        // New connections are refused before the old ones are told: a caller that finds its connection closed
        // and comes back must not be let in again.
        stopping.send_replace(true);
        let all_ended = async { while connections.open.join_next().await.is_some() {} };
        let _ = timeout(shutdown_timeout, all_ended).await;
    }
}

/// The connections that are open, and what each needs.
struct Connections {
    open: JoinSet<()>,
    shared: Arc<Shared>,
    second: Handle,
    is_seconds_turn: bool,
    asked_to_stop: watch::Receiver<bool>,
}

impl Connections {
    fn add(&mut self, stream: TcpStream) {
        let shared = Arc::clone(&self.shared);
        let stopping = self.asked_to_stop.clone();
        if self.is_seconds_turn {
            // A socket belongs to the runtime that it was made in.
            let Ok(stream) = stream.into_std() else {
                return;
            };
            let serving = async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    conn::serve(stream, shared, stopping).await;
                }
            };
            self.open.spawn_on(serving, &self.second);
        } else {
            self.open.spawn(conn::serve(stream, shared, stopping));
        }
        self.is_seconds_turn = !self.is_seconds_turn;
    }
}

/// The next connection, whatever goes wrong meanwhile.
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

/// The connections that are there already; after them `listener` is gone.
fn queued(listener: TcpListener) -> impl Iterator<Item = TcpStream> {
    let listener = listener.into_std().ok();
    iter::from_fn(move || {
        let (stream, _) = listener.as_ref()?.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.set_nodelay(true);
        TcpStream::from_std(stream).ok()
    })
}

/// Whether the error concerns a caller that was gone before it was accepted. Everything else is about us,
/// such as too many open files, and trying again at once would only burn the processor.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::ConnectionRefused
            | Kind::Interrupted
    )
}
