//! The specified API: routes, operations, checks of a request's head, and error bodies.

pub(crate) mod auth;
pub(crate) mod checks;
pub(crate) mod operations;
pub(crate) mod problem;
pub(crate) mod request_id;
pub(crate) mod response;
pub(crate) mod route;
