//! What needs no client and no service: the contract's data, the models and the rules. It runs without default
//! features too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[cfg(feature = "arrow")]
mod arrow;
mod building;
mod contract;
mod decimal;
mod errors_without_values;
mod formats;
mod json;
mod lines;
mod models;
mod names;
mod open_sets;
mod rules;
#[path = "../vectors/mod.rs"]
mod vectors;
