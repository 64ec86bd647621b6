//! Errors of the libraries below, as texts only.

use std::{error::Error, fmt, io};

use crate::{
    http::redact::{Redactor, short},
    value::words::Words,
};

/// An error of a library below and its causes, as texts, without any from the service.
///
/// The libraries' own errors cannot be passed on: over HTTP/2 they repeat the text with which a service
/// closes the connection, and that may contain anything, even the key.
pub(crate) struct ForeignError {
    text: Words,
    source: Option<Box<ForeignError>>,
}

impl ForeignError {
    pub(crate) fn of(error: &dyn Error, redactor: &Redactor) -> Self {
        let text = error.to_string();
        // This is how h2 writes the text of a GOAWAY.
        let own = text.split(" (b\"").next().unwrap_or_default();
        Self {
            text: short(&redactor.mask(own)).into(),
            source: error
                .source()
                .map(|source| Box::new(Self::of(source, redactor))),
        }
    }

    /// The same error, with its likely reason.
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) fn because(self, text: Words) -> Self {
        Self {
            text,
            source: Some(Box::new(self)),
        }
    }

    /// This cause and those behind it, with the settings in them as data.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Words> {
        std::iter::successors(Some(self), |cause| cause.source.as_deref()).map(|cause| &cause.text)
    }
}

impl<T: Into<Words>> From<T> for ForeignError {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            source: None,
        }
    }
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Debug for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text.to_string())?;
        match &self.source {
            Some(source) => write!(f, ", caused by {source:?}"),
            None => Ok(()),
        }
    }
}

impl Error for ForeignError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Finds the first error of this type among the causes.
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

/// Whether the connection ended before any part of the request was sent.
pub(crate) fn was_not_begun(error: &reqwest::Error) -> bool {
    find(error).is_some_and(hyper::Error::is_canceled)
}
