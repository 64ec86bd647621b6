//! One call as a value: what it asks for, how it is sent, and how its response is read.

pub(crate) mod agents;
pub(crate) mod call;
pub(crate) mod deals;
pub(crate) mod operations;
pub(crate) mod options;
pub(crate) mod response;
pub(crate) mod service;
pub(crate) mod trace;
