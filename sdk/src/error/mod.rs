//! The public error of a call: its kind, its outcome, and a message without secrets.

#[cfg(feature = "client")]
pub(crate) mod call;
#[cfg(feature = "client")]
pub(crate) mod cause;
#[cfg(feature = "client")]
pub(crate) mod kind;
pub(crate) mod problem;
#[cfg(feature = "client")]
pub(crate) mod summary;
