//! The contract: the table of routes and what each operation does, the checks of a request's head, and the bodies of
//! errors.

pub(crate) mod auth;
pub(crate) mod checks;
pub(crate) mod operations;
pub(crate) mod problem;
pub(crate) mod request_id;
pub(crate) mod response;
pub(crate) mod route;
