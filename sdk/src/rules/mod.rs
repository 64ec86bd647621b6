//! Request validation, shared by the client and the sandbox server.

pub(crate) mod fields;
pub mod validate;
