//! What a call does, as far as it may be shown.

use std::{borrow::Cow, fmt};

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: http::Method,
    /// The path, with placeholders instead of identifiers.
    pub(crate) template: Cow<'static, str>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.template)
    }
}
