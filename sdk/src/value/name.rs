//! Names of fields.

use std::borrow::{Borrow, Cow};

use serde::Deserialize;

/// The name of a field, borrowed where the JSON text allows it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}
