//! A lexer of JSON in one pass, under readers that know which fields to expect.
//!
//! A reader asks for what should come next. What the lexer hands over is what serde would have read; whatever it
//! does not take, it refuses without saying why: a slower reader then reads the document again, and has the last
//! word. So it may refuse too much, but must never take what that reader would not.
//!
//! It is public for the bindings, which build objects of their own, and for the sandbox server, whose reader of request
//! bodies is stricter; not for use by others.

mod cursor;
mod number;
mod string;
#[cfg(test)]
mod tests;
mod time;

pub use cursor::{Lexed, Lexer, Refused};
pub use number::{Digits, Number};
pub use string::{Text, is_plain};
pub use time::{Date, Timestamp};
