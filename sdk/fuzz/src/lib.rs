//! What must hold for any input, as plain functions: bytes in, a panic if a promise is broken.
//!
//! | function | input | what must hold |
//! |---|---|---|
//! | [`readers`] | a response | the reader over the lexer and serde read the same, and write what reads as the same; or refuse it with the same error |
//! | [`create_agent`] | a request body | the SDK and the server name the same violations; the agent is kept as it is returned |
//! | [`identifier`] | a deal's id | one path segment that the server resolves to that id, or `invalid_id` |
//! | [`request`](fn@request) | a request | a response of the contract, well-formed |
//!
//! None of them states the contract again: its vectors and openapi.json do that. Where two implementations must agree, one is the
//! judge of the other.
//!
//! Three things drive them: `tests/stable.rs` with proptest, on stable and for a limited time; `make fuzz` with
//! cargo-fuzz, on nightly and for long; and each target's binary on stable, which replays the files given as arguments:
//!
//! ```text
//! cargo run --package dealkit-fuzz --bin readers -- target/fuzz/found/readers-*
//! ```

// A body fails by panicking, as a test does.
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

/// The body of a target: one of the functions of this crate.
pub type Body = fn(&[u8]);

/// Every target, by name.
pub const TARGETS: [(&str, Body); 4] = [
    ("readers", readers),
    ("create_agent", create_agent),
    ("identifier", identifier),
    ("request", request),
];

/// Runs a body on the files that the command line names.
///
/// # Errors
/// When a file cannot be read.
pub fn replay(body: Body) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        body(&std::fs::read(path)?);
    }
    Ok(())
}

/// The rest of a target's file: libFuzzer's entry point under cargo-fuzz, otherwise a `main` that replays files.
#[macro_export]
macro_rules! fuzz_target {
    ($body:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::$body(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay($crate::$body)
        }
    };
}
