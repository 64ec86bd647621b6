//! The sandbox, and errors made for tests.

pub(crate) mod cli;
pub(crate) mod made_error;
pub(crate) mod sandbox;
