//! A single-pass JSON lexer, for readers that know which fields to expect.
//!
//! A reader requests the token that it expects next. The lexer returns the same values as serde, or [`LexError`] without a
//! reason; a slower reader then reads the document again to explain the error. The lexer must never accept a document that
//! serde would reject.
//!
//! Public for the bindings, which build their own objects, and for the sandbox server, whose reader of request bodies is
//! stricter; not for use by other crates.

#![allow(
    missing_debug_implementations,
    reason = "the lexer holds a document, which may contain personal data"
)]

mod cursor;
mod number;
mod read_fields;
mod string;
mod time;

pub use cursor::{LexError, LexResult, Lexer};
pub use number::{Digits, Number};
pub use string::is_plain;
