//! Room that many things share: how many bytes all of them together may have.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

#[derive(Debug)]
pub(crate) struct Room {
    max: u64,
    taken: AtomicU64,
}

/// What one of them has. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    bytes: u64,
}

impl Room {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self {
            max,
            taken: AtomicU64::new(0),
        })
    }

    /// A share, which begins with nothing.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share {
            room: Arc::clone(self),
            bytes: 0,
        }
    }
}

impl Share {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Has so many bytes from now on; false, and nothing has changed, when there is no room for more.
    #[must_use]
    pub(crate) fn resize(&mut self, bytes: u64) -> bool {
        let others = |taken: u64| taken.saturating_sub(self.bytes);
        let resized = |taken| {
            let sum = others(taken).checked_add(bytes);
            sum.filter(|sum| *sum <= self.room.max || bytes <= self.bytes)
        };
        let order = Ordering::Relaxed;
        let is_resized = self.room.taken.fetch_update(order, order, resized).is_ok();
        if is_resized {
            self.bytes = bytes;
        }
        is_resized
    }

    /// Gives everything back.
    pub(crate) fn clear(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}
