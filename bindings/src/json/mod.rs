//! Converts JSON text to Python's built-in types.

pub(crate) mod decimal_cache;
pub(crate) mod extra;
pub(crate) mod reader;
pub(crate) mod reader_caches;
pub(crate) mod string_cache;
pub(crate) mod value;
