//! ASCII text as str, in half the time: it is copied as it is. Python would look at each byte twice to find out what
//! one quick pass shows.
//!
//! This unsafe code is optional: everything works the same without it.

#![allow(
    unsafe_code,
    reason = "PyO3 has no safe way to an empty str to copy text into"
)]

use pyo3::{ffi, prelude::*, types::PyString};

#[inline]
pub(crate) fn string<'py>(py: Python<'py>, text: &str) -> Bound<'py, PyString> {
    // Python keeps one str for each single character, and one that is empty.
    if text.len() < 2 || !text.is_ascii() {
        return PyString::new(py, text);
    }
    // The length of a Rust str always fits.
    let length = text.len() as ffi::Py_ssize_t;
    // SAFETY: Python is attached. `PyUnicode_New` returns null, or a new str of that many ASCII characters, which
    // nobody else has seen yet, with one byte of room for each; it is filled with exactly that many bytes, all of
    // them ASCII.
    unsafe {
        let new = ffi::PyUnicode_New(length, 127);
        if new.is_null() {
            // Out of memory: PyO3 reports that.
            drop(PyErr::take(py));
            return PyString::new(py, text);
        }
        let room = ffi::PyUnicode_DATA(new).cast::<u8>();
        room.copy_from_nonoverlapping(text.as_ptr(), text.len());
        Bound::from_owned_ptr(py, new).cast_into_unchecked()
    }
}
