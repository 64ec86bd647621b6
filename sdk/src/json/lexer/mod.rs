//! A single-pass lexer of JSON, for readers that know which fields to expect.
//!
//! A reader asks for what should come next. The values that the lexer returns are those that serde would have read.
//! Anything that the lexer does not accept, it refuses without saying why: a slower reader then reads the document
//! again and decides. So the lexer may refuse too much, but must never accept what that reader would reject.
//!
//! It is public for the bindings, which build objects of their own, and for the sandbox server, whose reader of request
//! bodies is stricter. It is not for use by others.

#![allow(
    missing_debug_implementations,
    reason = "what these hold may be personal"
)]

mod cursor;
mod number;
mod string;
mod time;
mod walk;

pub use cursor::{Lexed, Lexer, Refused};
pub use number::{Digits, Number};
pub use string::is_plain;
