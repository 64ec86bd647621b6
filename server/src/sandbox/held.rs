//! Requests that a fault holds until they are released.

use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::RecvError};

use crate::sandbox::journal::Journal;

/// The held requests of a world, in the order of their arrival. A request is among them from its head on, so that a release
/// applies to it even if its body is still on its way.
#[derive(Debug, Default)]
pub(crate) struct HeldRequests(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    added: u64,
    requests: Vec<HeldRequest>,
}

#[derive(Debug)]
struct HeldRequest {
    id: u64,
    /// The request's number in the journal, once it has arrived as a whole.
    number: Option<u64>,
    release: oneshot::Sender<()>,
}

/// The hold on one request.
#[derive(Debug)]
pub(crate) struct Hold {
    id: u64,
    released: oneshot::Receiver<()>,
}

impl HeldRequests {
    pub(crate) fn add(&self) -> Hold {
        let (release, released) = oneshot::channel();
        let mut list = self.0.lock();
        list.added += 1;
        let id = list.added;
        // Callers that disconnected leave their senders behind.
        list.requests.retain(|request| !request.release.is_closed());
        list.requests.push(HeldRequest {
            id,
            number: None,
            release,
        });
        Hold { id, released }
    }

    /// Waits until the request, which has this number in the journal, is released.
    ///
    /// # Errors
    /// If it is dropped instead.
    pub(crate) async fn wait(
        &self,
        hold: Hold,
        number: u64,
        journal: &Journal,
    ) -> Result<(), RecvError> {
        {
            let mut list = self.0.lock();
            // It may have been released already.
            let held = list.requests.iter_mut().find(|held| held.id == hold.id);
            if let Some(held) = held {
                held.number = Some(number);
                journal.amend(number, |request| request.is_held = true);
            }
        }
        hold.released.await
    }

    /// Releases all held requests, and returns their number.
    pub(crate) fn release(&self, journal: &Journal) -> usize {
        let mut released = 0;
        for held in self.0.lock().requests.drain(..) {
            // The journal is amended first: once a request is released, no caller may still count it as held.
            if let Some(number) = held.number {
                journal.amend(number, |request| request.is_held = false);
            }
            released += usize::from(held.release.send(()).is_ok());
        }
        released
    }

    /// Drops all held requests: each gets no response, and is not acted on.
    pub(crate) fn clear(&self) {
        self.0.lock().requests.clear();
    }
}
