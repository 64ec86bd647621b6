//! Requests that a fault holds until they are released.

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::sandbox::journal::Journal;

/// The held requests of a world, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct HeldRequests(Mutex<Vec<HeldRequest>>);

#[derive(Debug)]
struct HeldRequest {
    /// The request's number in the journal.
    number: u64,
    release: oneshot::Sender<()>,
}

impl HeldRequests {
    /// Adds the request with this number, and marks it in the journal. The receiver gets a value when the request is
    /// released, and an error when it is dropped.
    pub(crate) fn add(&self, number: u64, journal: &Journal) -> oneshot::Receiver<()> {
        let (release, released) = oneshot::channel();
        let mut requests = self.0.lock();
        // Callers that disconnected leave their senders behind.
        requests.retain(|request| !request.release.is_closed());
        requests.push(HeldRequest { number, release });
        journal.amend(number, |request| request.is_held = true);
        released
    }

    /// Releases all held requests, and returns their number.
    pub(crate) fn release(&self, journal: &Journal) -> usize {
        let mut released = 0;
        for HeldRequest { number, release } in self.0.lock().drain(..) {
            // The journal is amended first: once a request is released, no caller may still count it as held.
            journal.amend(number, |request| request.is_held = false);
            released += usize::from(release.send(()).is_ok());
        }
        released
    }

    /// Drops all held requests: each gets no response, and is not acted on.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
