//! The rules of a request and the codes of their violations, shared by the client and the sandbox server.

pub(crate) mod fields;
pub mod validate;
