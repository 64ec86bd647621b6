//! Reading of environment variables.

use std::env::{self, VarError};

use crate::value::message::Message;

/// Reads an environment variable. An empty variable counts as unset, because containers and CI systems pass an unset variable
/// as empty.
///
/// # Errors
/// If the value is not Unicode.
pub(crate) fn read_variable(name: &str) -> Result<Option<String>, Message> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Message::from(format!(
            "the environment variable {name} is not Unicode text"
        ))),
    }
}
