//! The sandbox for Python: the embedded server, and the command `dealkit-server`.

pub(crate) mod cli;
pub(crate) mod sandbox;
