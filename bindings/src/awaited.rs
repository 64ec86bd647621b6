//! State that others wait for: threads, on a condition variable, and event loops, through their mailboxes.
//!
//! Who changes it says so with [`tell`](Awaited::tell): waking somebody costs more than a deal does, so a task may change
//! it many times before it tells of that.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::{
    pending::{Inbox, Mailbox},
    runtime::SIGNAL_POLL_INTERVAL,
};

pub(crate) struct Awaited<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
    /// Of the thread in the background, which wakes event loops.
    background: Handle,
}

struct Inner<T> {
    state: T,
    /// How many threads wait.
    threads: usize,
    /// Who waits on an event loop.
    waiting: Vec<(Arc<Inbox>, Py<PyAny>)>,
}

/// The state, which nobody else sees or changes meanwhile.
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

    /// Tells everybody who waits that the state has changed.
    pub(crate) fn tell(&self) {
        let mut inner = self.inner();
        let waiting = std::mem::take(&mut inner.waiting);
        let threads = inner.threads;
        drop(inner);
        if threads > 0 {
            self.changed.notify_all();
        }
        for (inbox, future) in waiting {
            inbox.news(&self.background, future);
        }
    }

    /// Waits as long as the state is like this, and hands over what it is then.
    pub(crate) fn wait_while(&self, mut is_so: impl FnMut(&T) -> bool) -> Locked<'_, T> {
        let mut inner = self.inner();
        inner.threads += 1;
        let waited = self.changed.wait_while(inner, |inner| is_so(&inner.state));
        inner = waited.unwrap_or_else(PoisonError::into_inner);
        inner.threads -= 1;
        Locked(inner)
    }

    /// Waits as long as the state is like this, but only so long that Python code can look for signals in between.
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

    /// Resolves the future of the mailbox's event loop the next time that somebody tells; at once where the state is not
    /// like this.
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
            inbox.news(&self.background, future);
        }
    }
}
