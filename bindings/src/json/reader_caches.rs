//! Caches that a thread reuses from one document to the next.

use std::cell::Cell;

use pyo3::prelude::*;

use crate::json::{decimal_cache::DecimalCache, string_cache::StringCache};

#[derive(Default)]
pub(crate) struct ReaderCaches {
    pub(crate) strings: StringCache,
    pub(crate) decimals: DecimalCache,
    /// A stack of the items of all unfinished arrays, the innermost array's items last.
    pub(crate) items: Vec<Py<PyAny>>,
}

thread_local! {
    static CACHES: Cell<Option<Box<ReaderCaches>>> = const { Cell::new(None) };
}

impl ReaderCaches {
    /// Takes the caches of this thread, or makes new ones. The caches are moved, not borrowed: Python may be
    /// called while they are in use.
    pub(crate) fn take() -> Box<Self> {
        CACHES.take().unwrap_or_default()
    }

    /// Puts the caches back for the thread's next document.
    pub(crate) fn put_back(self: Box<Self>) {
        CACHES.set(Some(self));
    }
}
