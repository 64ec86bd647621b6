//! JSON: the lexer, decoding of documents, and errors that name the value at fault. Knows values and the field table, no model.

pub(crate) mod decode;
pub(crate) mod decode_error;
pub mod document_limits;
pub mod explain_error;
#[doc(hidden)]
pub mod lexer;
pub(crate) mod unreadable;
