//! The embedded sandbox and its command.

pub(crate) mod cli;
pub(crate) mod sandbox;
