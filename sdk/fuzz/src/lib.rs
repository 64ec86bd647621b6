//! Properties that hold for any input, as functions that take bytes and panic if a property is violated.
//!
//! | function | input | property |
//! |---|---|---|
//! | [`readers`] | a response | the reader over the lexer and serde return the same value or the same error, and writing preserves the value |
//! | [`create_agent`] | a request body | the SDK and the server find the same violations; the server stores the agent that it returns |
//! | [`identifier`] | a deal's id | one path segment that the server resolves to that id, or `invalid_id` |
//! | [`request`](fn@request) | a request | a response of the contract, well-formed |
//!
//! The vectors and openapi.json state the contract; these functions do not repeat it. They compare two implementations with each
//! other.
//!
//! There are three ways to run them: `tests/stable.rs` uses proptest, on stable, for a limited time; `make fuzz` uses cargo-fuzz, on
//! nightly, for a long time; and each target's binary, on stable, replays the files given as arguments:
//!
//! ```text
//! cargo run --package dealkit-fuzz --bin readers -- target/fuzz/found/readers-*
//! ```

// A target fails by panicking, as a test does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod corpus;
mod create_agent;
mod identifier;
mod readers;
mod request;
mod sandbox;
#[path = "../../tests/vectors/mod.rs"]
mod vectors;

pub use create_agent::create_agent;
pub use identifier::identifier;
pub use readers::readers;
pub use request::request;

/// The function of a target.
pub type Target = fn(&[u8]);

/// Every target, by name.
pub const TARGETS: [(&str, Target); 4] = [
    ("readers", readers),
    ("create_agent", create_agent),
    ("identifier", identifier),
    ("request", request),
];

/// Runs a target on the files that the command line names.
///
/// # Errors
/// When a file cannot be read.
pub fn replay(target: Target) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        target(&std::fs::read(path)?);
    }
    Ok(())
}

/// Defines a target's entry point: libFuzzer's under cargo-fuzz, otherwise a `main` that replays files.
#[macro_export]
macro_rules! fuzz_target {
    ($target:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::$target(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay($crate::$target)
        }
    };
}
