//! State whose changes are awaited: by threads, on a condition variable, and by event loops, through their mailboxes.
//!
//! Waking a waiter costs more than handling a deal. A change of the state therefore wakes no waiters. Call
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
    change_condvar: Condvar,
    /// Number of waiting threads. Threads and futures are added while the state is locked, so that they miss no change.
    waiting_threads: AtomicUsize,
    /// Waiting asyncio futures, each with the inbox of its event loop.
    waiting_futures: Mutex<Vec<(Arc<Inbox>, Py<PyAny>)>>,
    /// The runtime of the background thread, which wakes event loops.
    background_runtime: Handle,
}

impl<T> SharedState<T> {
    pub(crate) fn new(state: T, background_runtime: Handle) -> Self {
        Self {
            state: Mutex::new(state),
            change_condvar: Condvar::new(),
            waiting_threads: AtomicUsize::new(0),
            waiting_futures: Mutex::default(),
            background_runtime,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_futures(&self) -> MutexGuard<'_, Vec<(Arc<Inbox>, Py<PyAny>)>> {
        self.waiting_futures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all waiting threads, and resolves all waiting futures.
    pub(crate) fn notify_all(&self) {
        let futures = std::mem::take(&mut *self.lock_futures());
        if self.waiting_threads.load(Ordering::SeqCst) > 0 {
            self.change_condvar.notify_all();
        }
        for (inbox, future) in futures {
            inbox.put(&self.background_runtime, future);
        }
    }

    /// Blocks while the condition holds, but at most for the poll interval, so that Python code can check for signals.
    pub(crate) fn wait_briefly(&self, condition: impl Fn(&T) -> bool) -> MutexGuard<'_, T> {
        let state = self.lock();
        self.waiting_threads.fetch_add(1, Ordering::SeqCst);
        let wait_result =
            self.change_condvar
                .wait_timeout_while(state, SIGNAL_POLL_INTERVAL, |state| condition(state));
        self.waiting_threads.fetch_sub(1, Ordering::SeqCst);
        wait_result.unwrap_or_else(PoisonError::into_inner).0
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
            self.lock_futures().push((inbox, future));
        } else {
            drop(state);
            inbox.put(&self.background_runtime, future);
        }
    }
}
