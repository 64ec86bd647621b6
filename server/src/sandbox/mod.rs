//! What exists for developers, outside of /v1: faults on demand, other readings, what the server saw, and the interface
//! under /__sandbox/.

pub(crate) mod access;
pub(crate) mod admin;
mod docs;
pub(crate) mod fault;
pub(crate) mod faults;
pub(crate) mod held;
pub(crate) mod journal;
pub(crate) mod rate_limit;
pub(crate) mod reading;
pub(crate) mod rewrite;
pub(crate) mod world;

pub use fault::{Cut, Fault, How, InvalidFault};
pub use faults::PendingFault;
pub use journal::{NotSeen, RecordedRequest};
pub use reading::{Reading, UnknownReading};
