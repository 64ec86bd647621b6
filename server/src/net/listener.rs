//! The accept loop: how many connections at once, what an accept error means, and how it all ends.

use std::{collections::HashMap, io, iter, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{oneshot, watch},
    task::{self, JoinError, JoinSet},
    time::{sleep, timeout},
};

use crate::net::{
    conn::{self, Shared},
    crowd::{self, Place},
    turns::Turns,
};

/// How long to wait when the system cannot give us a descriptor or a buffer. Connections that end free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long an idle connection takes to leave, with time to spare. One that takes longer is in the middle of a request.
const LEAVING: Duration = Duration::from_millis(100);

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
        places: HashMap::new(),
        shared,
        turns: Turns::default(),
        second,
        turns_of_second: Turns::default(),
        is_seconds_turn: false,
        asked_to_stop,
    };
    // A connection that has arrived and has no place yet. The others wait in the system's queue.
    let mut waiting = None;
    let stopped = loop {
        tokio::select! {
            stopped = &mut stop => break stopped,
            // Those that ended make room.
            Some(ended) = connections.open.join_next_with_id() => connections.forget(ended),
            stream = accept(&listener), if waiting.is_none() => waiting = Some(stream),
            () = make_room(&connections.places), if waiting.is_some() => {}
        }
        let has_room = connections.open.len() < max_connections;
        let admitted = waiting.take_if(|_| has_room);
        // Set first, or another thread could end the connection that it is just given.
        connections.shared.crowd.set_waiting(waiting.is_some());
        if let Some(stream) = admitted {
            connections.add(stream);
        }
    };
    if stopped.is_ok() {
        // Callers whose connections the system has already let in may have sent their requests.
        let room = max_connections.saturating_sub(connections.open.len());
        for stream in waiting.into_iter().chain(queued(listener)).take(room) {
            connections.add(stream);
        }
        // New connections are refused before the old ones are told: a caller that finds its connection closed and
        // reconnects must not be let in again.
        stopping.send_replace(true);
        let all_ended = async { while connections.open.join_next().await.is_some() {} };
        let _ = timeout(shutdown_timeout, all_ended).await;
    }
}

/// The connections that are open, and what each needs.
struct Connections {
    open: JoinSet<()>,
    places: HashMap<task::Id, Arc<Place>>,
    shared: Arc<Shared>,
    turns: Turns,
    second: Handle,
    turns_of_second: Turns,
    is_seconds_turn: bool,
    asked_to_stop: watch::Receiver<bool>,
}

impl Connections {
    fn add(&mut self, stream: TcpStream) {
        let place = Place::take();
        let serving = (
            Arc::clone(&self.shared),
            Arc::clone(&place),
            self.asked_to_stop.clone(),
        );
        let (shared, its_place, stopping) = serving;
        let task = if self.is_seconds_turn {
            // A socket belongs to the runtime that it was made in.
            let Ok(stream) = stream.into_std() else {
                return;
            };
            let turns = self.turns_of_second.clone();
            let serving = async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    conn::serve(stream, shared, turns, its_place, stopping).await;
                }
            };
            self.open.spawn_on(serving, &self.second)
        } else {
            let turns = self.turns.clone();
            let serving = conn::serve(stream, shared, turns, its_place, stopping);
            self.open.spawn(serving)
        };
        self.places.insert(task.id(), place);
        self.is_seconds_turn = !self.is_seconds_turn;
    }

    /// Takes note of a connection that has ended.
    fn forget(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.places.remove(&id);
    }
}

/// Asks an idle connection to leave, and gives it a moment to do so.
async fn make_room(places: &HashMap<task::Id, Arc<Place>>) {
    match crowd::ask_longest_idle(places.values()) {
        Ok(()) => sleep(LEAVING).await,
        Err(too_soon) => sleep(too_soon).await,
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
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::ConnectionRefused
            | Kind::Interrupted
    )
}
