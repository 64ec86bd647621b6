//! The response types and the request, as Python sees them.

pub(crate) mod agent_body;
pub(crate) mod classes;
pub(crate) mod item;
pub(crate) mod model;
pub(crate) mod read;
pub(crate) mod response;
pub(crate) mod schema;
pub(crate) mod texts;
pub(crate) mod unreadable;
pub(crate) mod write;
