//! Tests that need no client and no service: of the contract's data, the models and the rules. They also run without
//! default features.

#[cfg(feature = "arrow")]
mod arrow;
mod contract;
mod decimal;
mod errors_without_values;
mod formats;
mod json;
mod lexer;
mod models;
mod names;
mod open_sets;
mod rules;
#[path = "../vectors/mod.rs"]
mod vectors;
