//! Requests that faults hold until they are released.

use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::RecvError};

use crate::sandbox::journal::Journal;

/// The held requests of a namespace, in the order of their arrival.
///
/// A request is added when its head arrives, so that a release applies to it even while its body is still arriving.
#[derive(Debug, Default)]
pub(crate) struct HeldRequests(Mutex<HeldList>);

#[derive(Debug, Default)]
struct HeldList {
    added_count: u64,
    requests: Vec<HeldRequest>,
}

#[derive(Debug)]
struct HeldRequest {
    id: u64,
    /// The request's number in the journal. `None` until the whole request has arrived.
    number: Option<u64>,
    release_sender: oneshot::Sender<()>,
}

/// The receiver on which a held request waits until it is released.
#[derive(Debug)]
pub(crate) struct Hold {
    id: u64,
    release_receiver: oneshot::Receiver<()>,
}

impl HeldRequests {
    pub(crate) fn add(&self) -> Hold {
        let (release_sender, release_receiver) = oneshot::channel();
        let mut list = self.0.lock();
        list.added_count += 1;
        let id = list.added_count;
        // Remove the requests of clients that have disconnected.
        list.requests
            .retain(|request| !request.release_sender.is_closed());
        list.requests.push(HeldRequest {
            id,
            number: None,
            release_sender,
        });
        Hold {
            id,
            release_receiver,
        }
    }

    /// Marks the request as held in the journal, and waits until it is released.
    ///
    /// # Errors
    /// If a reset drops the request.
    pub(crate) async fn wait_for_release(
        &self,
        hold: Hold,
        number: u64,
        journal: &Journal,
    ) -> Result<(), RecvError> {
        {
            let mut list = self.0.lock();
            // `None` if the request was released before its body arrived.
            let held = list.requests.iter_mut().find(|held| held.id == hold.id);
            if let Some(held) = held {
                held.number = Some(number);
                journal.update(number, |request| request.is_held = true);
            }
        }
        hold.release_receiver.await
    }

    /// Releases all held requests and returns their number.
    pub(crate) fn release(&self, journal: &Journal) -> usize {
        let mut released_count = 0;
        for held in self.0.lock().requests.drain(..) {
            // Update the journal first: a test that sees the released request's response must not find it listed as held.
            if let Some(number) = held.number {
                journal.update(number, |request| request.is_held = false);
            }
            released_count += usize::from(held.release_sender.send(()).is_ok());
        }
        released_count
    }

    /// Drops all held requests: they get no response and are not processed.
    pub(crate) fn clear(&self) {
        self.0.lock().requests.clear();
    }
}
