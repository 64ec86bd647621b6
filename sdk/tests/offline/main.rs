//! Tests of the contract's data, the models and the rules. They need neither a client nor a service, and also run without default
//! features.

#[cfg(feature = "arrow")]
mod arrow;
mod decimal;
mod errors_without_values;
mod extra_fields;
mod formats;
mod json;
mod lexer;
mod masked_names;
mod models;
mod openapi;
mod rules;
mod typed_strings;
#[path = "../vectors/mod.rs"]
mod vectors;
