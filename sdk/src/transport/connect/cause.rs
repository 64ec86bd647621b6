//! Errors of the libraries below, as texts only, and what they mean for a connection.

use std::error::Error;

use crate::{
    transport::{connect::h2_errors, redact::short},
    value::words::Words,
};

/// An error of a library below and its causes, as texts, without any from the service.
///
/// The libraries' own errors cannot be passed on: over HTTP/2 they repeat the text with which a service
/// closes the connection, and that may contain anything, even the key.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ForeignError {
    text: Words,
    source: Option<Box<ForeignError>>,
}

impl ForeignError {
    /// The error with its texts as `mask` returns them.
    pub(crate) fn of(error: &dyn Error, mask: &dyn Fn(&str) -> String) -> Self {
        let text = error.to_string();
        Self {
            text: short(&mask(h2_errors::without_debug_data(&text))).into(),
            source: error
                .source()
                .map(|source| Box::new(Self::of(source, mask))),
        }
    }

    /// This cause and those behind it, with the settings in them as data.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Words> {
        std::iter::successors(Some(self), |cause| cause.source.as_deref()).map(|cause| &cause.text)
    }
}

/// Why no connection could be made, where that is clear, and what to do about it.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) words: Words,
    /// Whether trying again would not help.
    pub(crate) is_lasting: bool,
}

impl ConnectFailure {
    pub(crate) fn passing(words: Words) -> Self {
        Self {
            words,
            is_lasting: false,
        }
    }

    pub(crate) fn lasting(words: Words) -> Self {
        Self {
            words,
            is_lasting: true,
        }
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
