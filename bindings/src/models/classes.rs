//! The classes of the response types, made from the core's table of their fields: class, reading, equality,
//! repr, pickling, dict and JSON follow from it, as the Rust types do.

use crate::models::model::models;

dealkit::__response_models!(models);
