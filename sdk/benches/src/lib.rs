//! The common parts of the benchmarks: turns, documents, models for the peers, and a service with fixed responses.
//!
//! Neither criterion nor divan is used: they measure one contender to the end before the next begins, by wall-clock
//! time, so that on a busy machine the ratio of two results is mostly chance. Here, contenders take turns
//! ([`Bench::compare`]), most tables measure the CPU time of the contender's thread, and each ratio is calculated within
//! one round.

// A benchmark prints its results, and panics if it cannot measure.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

pub mod calls;
pub mod clock;
pub mod document;
pub mod memory;
pub mod plain;
pub mod request;
pub mod rounds;
pub mod service;

pub use rounds::{Arguments, Bench, Table, Turn};
