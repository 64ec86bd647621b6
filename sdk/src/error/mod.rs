//! The public error of a call: its kind and outcome, what the service said, and what may be shown of it.

#[cfg(feature = "client")]
pub(crate) mod call;
#[cfg(feature = "client")]
pub(crate) mod cause;
#[cfg(feature = "client")]
pub(crate) mod kind;
pub(crate) mod problem;
#[cfg(feature = "client")]
pub(crate) mod summary;
