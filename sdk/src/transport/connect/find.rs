//! Search for an error of an underlying library by its type.

use std::{error::Error, io};

/// Returns the first error of type `E` among an error and its sources.
pub(crate) fn find_source<'e, E: Error + 'static>(
    error: &'e (dyn Error + 'static),
) -> Option<&'e E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // An I/O error's `source()` skips the error that it wraps, and returns that error's source instead.
    let wrapped_error = error.downcast_ref().and_then(io::Error::get_ref);
    match wrapped_error {
        Some(wrapped_error) => find_source(wrapped_error),
        None => find_source(error.source()?),
    }
}
