//! The response models, the create request, and the results of calls, as Python objects.

pub(crate) mod agent_body;
pub(crate) mod call_result;
pub(crate) mod classes;
pub(crate) mod json_functions;
pub(crate) mod model;
pub(crate) mod read_field;
pub(crate) mod response;
pub(crate) mod schema;
pub(crate) mod unreadable_fields;
pub(crate) mod write;
