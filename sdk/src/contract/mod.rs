//! What the specification states: the fields of every object and the names that both ends of a connection use.

pub(crate) mod names;
#[doc(hidden)]
pub mod schema;
mod table;
pub mod wire;
