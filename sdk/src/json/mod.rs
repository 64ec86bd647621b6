//! JSON: its tokens, documents, documents one a line, and where reading one failed. Knows values, and no model.

pub(crate) mod decode;
pub(crate) mod decode_error;
#[cfg(feature = "client")]
pub(crate) mod decode_typed;
pub mod document;
pub mod explain;
pub mod lexer;
pub(crate) mod lines;
pub(crate) mod unreadable;
