//! Looks for an error of a library below by its type.

use std::{error::Error, io};

pub(crate) fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // An I/O error's `source()` skips the error that it wraps, and returns that error's source instead.
    let wrapped = error.downcast_ref().and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => find(wrapped),
        None => find(error.source()?),
    }
}
