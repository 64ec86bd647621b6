//! JSON: its tokens, documents, and where reading one failed. Knows values, and no model.

pub(crate) mod decode;
pub(crate) mod decode_error;
pub mod document;
pub mod explain;
#[doc(hidden)]
pub mod lexer;
pub(crate) mod unreadable;
