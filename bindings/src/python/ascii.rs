//! Makes a str from ASCII text in half the time of CPython's own function, which examines each byte twice.
//!
//! An optimization only: `PyString::new` has the same result.

#![allow(
    unsafe_code,
    reason = "PyO3 has no safe function that makes an uninitialized str"
)]

use pyo3::{ffi, prelude::*, types::PyString};

/// Makes a str from any text. Fast for ASCII text.
#[inline]
pub(crate) fn new_str<'py>(py: Python<'py>, text: &str) -> Bound<'py, PyString> {
    // CPython shares the empty str, and one str for each single character.
    if text.len() < 2 || !text.is_ascii() {
        return PyString::new(py, text);
    }
    // The length of a Rust str always fits.
    let length = text.len() as ffi::Py_ssize_t;
    // SAFETY: Python is attached. `PyUnicode_New` returns null, or a new str for `length` ASCII characters with one byte for
    // each. No other code has a reference to the str yet. The copy fills it with exactly `length` bytes, all of them ASCII.
    unsafe {
        let string = ffi::PyUnicode_New(length, 127);
        if string.is_null() {
            // Python is out of memory: `PyString::new` reports the error.
            drop(PyErr::take(py));
            return PyString::new(py, text);
        }
        let data = ffi::PyUnicode_DATA(string).cast::<u8>();
        data.copy_from_nonoverlapping(text.as_ptr(), text.len());
        Bound::from_owned_ptr(py, string).cast_into_unchecked()
    }
}
