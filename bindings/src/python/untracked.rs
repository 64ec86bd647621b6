//! Objects that the garbage collector need not look at.
//!
//! A model is made of finished objects and never changes, so no reference cycle can lead through it. But PyO3 has the
//! collector track the objects of every class, and a program that holds many deals would have them all visited again and
//! again. CPython itself does not track tuples and dicts in which there is nothing to track. Of our other classes, the
//! collector sees no field, so it cannot free them either: those of which there are many at a time need no tracking.

#![allow(unsafe_code, reason = "PyO3 has no safe way to this")]

use pyo3::{PyClass, ffi, prelude::*, types::PyTuple};

/// Takes an object of one of our classes from the collector.
#[inline]
pub(crate) fn untracked<T: PyClass>(object: Bound<'_, T>) -> Bound<'_, T> {
    untrack(object.as_ptr());
    object
}

/// The same for a tuple of models.
#[inline]
pub(crate) fn untracked_tuple(tuple: Bound<'_, PyTuple>) -> Bound<'_, PyTuple> {
    untrack(tuple.as_ptr());
    tuple
}

#[inline]
fn untrack(object: *mut ffi::PyObject) {
    // SAFETY: Python is attached, and the object is one that can be tracked. The destructors of tuples and of PyO3's classes
    // also take one that is not tracked any more. (Those of other types need not: a mappingproxy's would crash.)
    unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
}
