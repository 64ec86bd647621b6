//! State that others wait for: threads, on a condition variable, and event loops, through their mailboxes.
//!
//! Code that changes it calls [`tell`](Awaited::tell): waking a waiter costs more than handling a deal, so a task may
//! change the state many times before it does so.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::calls::{
    mailbox::{Inbox, Mailbox},
    runtime::SIGNAL_POLL_INTERVAL,
};

pub(crate) struct Awaited<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
    /// The handle of the background thread, which wakes event loops.
    background: Handle,
}

struct Inner<T> {
    state: T,
    /// How many threads are waiting.
    threads: usize,
    /// The waiters on event loops.
    waiting: Vec<(Arc<Inbox>, Py<PyAny>)>,
}

/// The state, which nobody else sees or changes in the meantime.
pub(crate) struct Locked<'a, T>(MutexGuard<'a, Inner<T>>);

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.state
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.state
    }
}

impl<T> Awaited<T> {
    pub(crate) fn new(state: T, background: Handle) -> Self {
        Self {
            inner: Mutex::new(Inner {
                state,
                threads: 0,
                waiting: Vec::new(),
            }),
            changed: Condvar::new(),
            background,
        }
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        Locked(self.inner())
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all waiters that the state has changed.
    pub(crate) fn tell(&self) {
        let mut inner = self.inner();
        let waiting = std::mem::take(&mut inner.waiting);
        let threads = inner.threads;
        drop(inner);
        if threads > 0 {
            self.changed.notify_all();
        }
        for (inbox, future) in waiting {
            inbox.put(&self.background, future);
        }
    }

    /// Waits while the condition holds, but only briefly, so that Python code can check for signals in between.
    pub(crate) fn wait_a_little_while(&self, mut is_so: impl FnMut(&T) -> bool) -> Locked<'_, T> {
        let mut inner = self.inner();
        inner.threads += 1;
        let waited = self
            .changed
            .wait_timeout_while(inner, SIGNAL_POLL_INTERVAL, |inner| is_so(&inner.state));
        (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.threads -= 1;
        Locked(inner)
    }

    /// Resolves the future of the mailbox's event loop at the next `tell`, or at once if the condition does not hold.
    pub(crate) fn resolve_while(
        &self,
        mailbox: &Mailbox,
        future: Py<PyAny>,
        is_so: impl FnOnce(&T) -> bool,
    ) {
        let inbox = Arc::clone(&mailbox.inner);
        let mut inner = self.inner();
        if is_so(&inner.state) {
            inner.waiting.push((inbox, future));
        } else {
            drop(inner);
            inbox.put(&self.background, future);
        }
    }
}
