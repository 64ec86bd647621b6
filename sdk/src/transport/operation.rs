//! The operation of a call, for messages, logs and traces.

use std::{borrow::Cow, fmt};

/// A method and a path template. An operation contains no identifier, so messages may show it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: http::Method,
    /// The path with placeholders for identifiers, such as `/v1/deals/{id}`.
    pub(crate) template: Cow<'static, str>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.template)
    }
}
