//! The interpreter and Python's built-in types: the GIL, arguments, failures and object caches. [`gil`] states the rule for
//! all native code.

pub(crate) mod arguments;
pub(crate) mod ascii;
pub(crate) mod builtin;
pub(crate) mod failure;
pub(crate) mod gil;
pub(crate) mod object_cache;
pub(crate) mod untrack;
