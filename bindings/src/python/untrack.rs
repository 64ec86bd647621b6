//! Exempts objects from CPython's cyclic garbage collector.
//!
//! The collector regularly visits every object that it tracks, and PyO3 makes it track the instances of every class. A program
//! that holds many deals would pay for these visits, although a model cannot be part of a reference cycle: it is immutable,
//! and refers only to finished objects. (For the same reason, CPython does not track tuples and dicts of plain values.)
//!
//! The other native classes have no `__traverse__`: the collector could not free a reference cycle through their instances anyway.
//! Classes with many instances are therefore exempt, too.

#![allow(unsafe_code, reason = "PyO3 has no safe function for this")]

use pyo3::{PyClass, ffi, prelude::*, types::PyTuple};

/// Exempts an instance of a native class.
#[inline]
pub(crate) fn untrack<T: PyClass>(object: Bound<'_, T>) -> Bound<'_, T> {
    untrack_pointer(object.as_ptr());
    object
}

/// Exempts a tuple of models.
#[inline]
pub(crate) fn untrack_tuple(tuple: Bound<'_, PyTuple>) -> Bound<'_, PyTuple> {
    untrack_pointer(tuple.as_ptr());
    tuple
}

#[inline]
fn untrack_pointer(object: *mut ffi::PyObject) {
    // SAFETY: Python is attached, and the collector can track objects of this type. The destructors of tuples and of PyO3's
    // classes accept an object that is no longer tracked. (Other destructors do not: a mappingproxy's would crash.)
    unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
}
