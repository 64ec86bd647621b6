//! What native code does with the interpreter and with Python's own types; see [`gil`].

pub(crate) mod arguments;
pub(crate) mod ascii;
pub(crate) mod builtin;
pub(crate) mod failure;
pub(crate) mod gil;
pub(crate) mod kept;
pub(crate) mod untracked;
