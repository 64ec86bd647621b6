//! When a request may be sent: the state that all calls of a client share.

pub(crate) mod allowance;
pub(crate) mod pace;
pub(crate) mod queue;
pub(crate) mod turns;
