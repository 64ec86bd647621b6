//! One call: what it is, what drives it, and what it tells.

pub(crate) mod awaited;
pub(crate) mod call;
pub(crate) mod key;
pub(crate) mod mailbox;
pub(crate) mod pending;
pub(crate) mod runtime;
pub(crate) mod waiting;
pub(crate) mod watch;
