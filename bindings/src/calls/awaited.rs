//! State that others wait for: threads, on a condition variable, and event loops, through their mailboxes.
//!
//! Code that changes it calls [`tell`](Awaited::tell): waking a waiter costs more than handling a deal, so a task may
//! change the state many times before it does so.

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

pub(crate) struct Awaited<T> {
    state: Mutex<T>,
    changed: Condvar,
    /// How many threads are waiting. Like the other waiters, they are added while the state is locked, so that none of them
    /// misses a change.
    threads: AtomicUsize,
    waiting: Mutex<Vec<(Arc<Inbox>, Py<PyAny>)>>,
    /// The handle of the background thread, which wakes event loops.
    background: Handle,
}

impl<T> Awaited<T> {
    pub(crate) fn new(state: T, background: Handle) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            threads: AtomicUsize::new(0),
            waiting: Mutex::default(),
            background,
        }
    }

    /// The state, which nobody else sees or changes in the meantime.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(Arc<Inbox>, Py<PyAny>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self) {
        let waiting = std::mem::take(&mut *self.waiting());
        if self.threads.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
        for (inbox, future) in waiting {
            inbox.put(&self.background, future);
        }
    }

    /// Waits while the condition holds, but only briefly, so that Python code can check for signals in between.
    pub(crate) fn wait_a_little_while(&self, is_so: impl Fn(&T) -> bool) -> MutexGuard<'_, T> {
        let state = self.lock();
        self.threads.fetch_add(1, Ordering::SeqCst);
        let waited = self
            .changed
            .wait_timeout_while(state, SIGNAL_POLL_INTERVAL, |state| is_so(state));
        self.threads.fetch_sub(1, Ordering::SeqCst);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Resolves the future of the mailbox's event loop at the next `tell`, or at once if the condition does not hold.
    pub(crate) fn resolve_while(
        &self,
        mailbox: &Mailbox,
        future: Py<PyAny>,
        is_so: impl FnOnce(&T) -> bool,
    ) {
        let inbox = Arc::clone(&mailbox.inner);
        let state = self.lock();
        if is_so(&state) {
            self.waiting().push((inbox, future));
        } else {
            drop(state);
            inbox.put(&self.background, future);
        }
    }
}
