//! JSON text to Python's own types and back.

pub(crate) mod decimals;
pub(crate) mod extra;
pub(crate) mod reader;
pub(crate) mod reused;
pub(crate) mod value;
pub(crate) mod words;
