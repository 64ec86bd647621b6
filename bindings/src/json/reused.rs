//! What a thread reuses from one document to the next.

use std::cell::Cell;

use pyo3::prelude::*;

use crate::json::{decimals::Decimals, words::Words};

/// Objects that need not be made anew for each document.
#[derive(Default)]
pub(crate) struct Reused {
    pub(crate) words: Words,
    pub(crate) decimals: Decimals,
    /// The items of the arrays that are being read, the innermost last.
    pub(crate) items: Vec<Py<PyAny>>,
}

thread_local! {
    static REUSED: Cell<Option<Box<Reused>>> = const { Cell::new(None) };
}

impl Reused {
    /// Takes this thread's objects away for the time of their use: nothing is borrowed while Python is called.
    pub(crate) fn take() -> Box<Self> {
        REUSED.take().unwrap_or_default()
    }

    /// Keeps it for the thread's next document.
    pub(crate) fn keep(self: Box<Self>) {
        REUSED.set(Some(self));
    }
}
