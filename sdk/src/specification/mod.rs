//! The specification as data: the fields of every object, and the headers and paths that client and server share.

pub(crate) mod field_names;
mod response_fields;
#[doc(hidden)]
pub mod schema;
pub mod wire;
