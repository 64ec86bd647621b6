//! Errors of the underlying libraries as masked text, and the reasons why no connection could be made.

use std::error::Error;

use crate::{
    transport::{connect::h2_errors, redact::shorten},
    value::message::Message,
};

/// An error of an underlying library and its sources, as masked text.
///
/// The libraries' own errors cannot be passed on: over HTTP/2 they repeat the text with which a service closes the connection,
/// and that text may contain anything, even the key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct LibraryError {
    text: String,
    source: Option<Box<LibraryError>>,
}

impl LibraryError {
    /// Copies the texts of an error and of its sources, each masked with `mask`.
    pub(crate) fn from_error(error: &dyn Error, mask: &dyn Fn(&str) -> String) -> Self {
        let text = error.to_string();
        Self {
            text: shorten(&mask(h2_errors::strip_debug_data(&text))),
            source: error
                .source()
                .map(|source| Box::new(Self::from_error(source, mask))),
        }
    }

    /// Returns the texts of this error and of its sources, in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self), |error| error.source.as_deref()).map(|error| &*error.text)
    }
}

/// A known reason why no connection could be made, with advice.
#[derive(Clone, Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) message: Message,
    /// True if another attempt would fail in the same way. The call is then not retried.
    pub(crate) is_permanent: bool,
}

impl ConnectFailure {
    pub(crate) fn temporary(message: impl Into<Message>) -> Self {
        Self {
            message: message.into(),
            is_permanent: false,
        }
    }

    pub(crate) fn permanent(message: impl Into<Message>) -> Self {
        Self {
            message: message.into(),
            is_permanent: true,
        }
    }
}

#[cfg(feature = "test-util")]
impl<T: Into<String>> From<T> for LibraryError {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            source: None,
        }
    }
}
