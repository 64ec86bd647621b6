//! The sandbox.

pub(crate) mod cli;
pub(crate) mod sandbox;
