//! Environment variables.

use std::env::{self, VarError};

use crate::value::words::Words;

/// Reads an environment variable. An empty one counts as unset, because that is how container and CI settings leave one out.
///
/// # Errors
/// If the value is not Unicode.
pub(crate) fn read_variable(name: &str) -> Result<Option<String>, Words> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Words::from(format!(
            "the environment variable {name} is not Unicode text"
        ))),
    }
}
