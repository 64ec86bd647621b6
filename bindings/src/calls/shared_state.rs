//! State whose changes are awaited: by threads, on a condition variable, and by event loops, through their mailboxes.
//!
//! Waking a waiter costs more than handling a deal. So changing the state wakes no waiters: call
//! [`notify_all`](SharedState::notify_all) after several changes.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::calls::{
    mailbox::{Inbox, Mailbox},
    runtime::SIGNAL_POLL_INTERVAL,
};

pub(crate) struct SharedState<T> {
    state: Mutex<T>,
    changed: Condvar,
    /// Number of waiting threads. Threads and futures are added while the state is locked, so that none misses a change.
    threads: AtomicUsize,
    /// Waiting asyncio futures, each with the inbox of its event loop.
    futures: Mutex<Vec<(Arc<Inbox>, Py<PyAny>)>>,
    /// The background thread, which wakes event loops.
    background: Handle,
}

impl<T> SharedState<T> {
    pub(crate) fn new(state: T, background: Handle) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            threads: AtomicUsize::new(0),
            futures: Mutex::default(),
            background,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn futures(&self) -> MutexGuard<'_, Vec<(Arc<Inbox>, Py<PyAny>)>> {
        self.futures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all waiting threads, and resolves all waiting futures.
    pub(crate) fn notify_all(&self) {
        let futures = std::mem::take(&mut *self.futures());
        if self.threads.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
        for (inbox, future) in futures {
            inbox.put(&self.background, future);
        }
    }

    /// Blocks while the condition holds, but at most for the poll interval, so that Python code can check for signals.
    pub(crate) fn wait_briefly(&self, condition: impl Fn(&T) -> bool) -> MutexGuard<'_, T> {
        let state = self.lock();
        self.threads.fetch_add(1, Ordering::SeqCst);
        let waited = self
            .changed
            .wait_timeout_while(state, SIGNAL_POLL_INTERVAL, |state| condition(state));
        self.threads.fetch_sub(1, Ordering::SeqCst);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Resolves an asyncio future at the next [`notify_all`](Self::notify_all), or immediately if the condition is false.
    pub(crate) fn resolve_unless(
        &self,
        mailbox: &Mailbox,
        future: Py<PyAny>,
        condition: impl FnOnce(&T) -> bool,
    ) {
        let inbox = Arc::clone(&mailbox.inbox);
        let state = self.lock();
        if condition(&state) {
            self.futures().push((inbox, future));
        } else {
            drop(state);
            inbox.put(&self.background, future);
        }
    }
}
