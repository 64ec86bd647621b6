//! What exists for developers, outside of /v1: faults on demand, other readings, and what the server saw.

mod fault;
mod fault_text;
pub(crate) mod faults;
pub(crate) mod reading;
mod rewrite;
pub(crate) mod shape;

pub use fault::{Cut, Fault, How, InvalidFault};
pub use reading::{Reading, UnknownReading};
