//! Why a connection failed, as text only.

use std::{error::Error, fmt, io};

use crate::error::redact::{Redactor, short};

/// A transport failure and its causes, without any text from the service.
///
/// The transport's own errors cannot be passed on: over HTTP/2 they repeat the text with which a service
/// closes the connection, and that may contain anything, even the key.
pub(crate) struct TransportError {
    text: String,
    source: Option<Box<TransportError>>,
}

impl TransportError {
    pub(crate) fn of(error: &dyn Error, redactor: &Redactor) -> Self {
        let text = error.to_string();
        // This is how h2 writes the text of a GOAWAY.
        let own = text.split(" (b\"").next().unwrap_or_default();
        Self {
            text: short(&redactor.mask(own)),
            source: error
                .source()
                .map(|source| Box::new(Self::of(source, redactor))),
        }
    }

    /// The same error, with its likely reason.
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) fn because(self, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            source: Some(Box::new(self)),
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)?;
        match &self.source {
            Some(source) => write!(f, ", caused by {source:?}"),
            None => Ok(()),
        }
    }
}

impl Error for TransportError {
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
