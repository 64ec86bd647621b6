//! Why a connection failed, as texts alone.

use std::{error::Error, fmt, io};

use crate::redact::{Redactor, short};

/// A failure of the transport and what caused it, without what the service said.
///
/// The transport's own errors cannot be handed on: over HTTP/2 they repeat the text with which a service
/// closes the connection, and that may hold anything, the key too.
pub(crate) struct TransportError {
    text: String,
    source: Option<Box<TransportError>>,
}

impl TransportError {
    pub(crate) fn of(error: &dyn Error, redactor: &Redactor) -> Self {
        let text = error.to_string();
        // How h2 writes the text of a GOAWAY.
        let own = text.split(" (b\"").next().unwrap_or_default();
        Self {
            text: short(&redactor.mask(own)),
            source: error
                .source()
                .map(|source| Box::new(Self::of(source, redactor))),
        }
    }

    /// The same, with what is likely to be behind it.
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

/// The first error of this type among the causes.
pub(super) fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // What an I/O error wraps is not its source: that is the source of what it wraps.
    let wrapped = error.downcast_ref().and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => find(wrapped),
        None => find(error.source()?),
    }
}

/// Whether the connection ended before anything of the request was sent.
pub(super) fn was_not_begun(error: &reqwest::Error) -> bool {
    find(error).is_some_and(hyper::Error::is_canceled)
}
