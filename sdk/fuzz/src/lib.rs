//! What must hold for any input, as plain functions: bytes in, a panic if a promise is broken.
//!
//! | function | input | what must hold |
//! |---|---|---|
//! | [`deal`], [`agent`] | a response | read as the contract says, field by field, or refused at the right place |
//! | [`readers`] | a response | the reader over the lexer and serde read the same, or refuse it with the same error |
//! | [`create_agent`] | a request body | SDK, server and a second statement of the rules agree; the agent is what was asked for |
//! | [`identifier`] | a deal's id | one path segment that the server resolves to that id, or `invalid_id` |
//! | [`target`](fn@target) | a request | a response of the contract, well-formed, by the contract's order of checks |
//! | [`retry_after`] | a header's value | seconds, a date, or nothing |
//! | [`seed`] | a seed file | taken and served byte for byte, or refused at the right place |
//!
//! Three things drive them: `tests/stable.rs` with proptest, on stable and for a limited time; `make fuzz` with
//! cargo-fuzz, on nightly and for long; and each target's binary on stable, which replays the files given as arguments:
//!
//! ```text
//! cargo run --package dealkit-fuzz --bin deal -- target/fuzz/deal/crash-*
//! ```
//!
//! The bodies do not ask the code under test what is right. `json` parses JSON, and `shape` states the contract's
//! tables once more, both as simply as possible.

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
mod json;
mod readers;
mod response;
mod retry_after;
mod sandbox;
mod seed;
mod shape;
mod target;
mod time;
#[path = "../../tests/vectors/mod.rs"]
mod vectors;

pub use create_agent::create_agent;
pub use identifier::identifier;
pub use readers::readers;
pub use response::{agent, deal};
pub use retry_after::retry_after;
pub use seed::seed;
pub use target::target;

/// The body of a target: one of the functions of this crate.
pub type Body = fn(&[u8]);

/// Every target, by name.
pub const TARGETS: [(&str, Body); 8] = [
    ("deal", deal),
    ("agent", agent),
    ("readers", readers),
    ("create_agent", create_agent),
    ("identifier", identifier),
    ("target", target),
    ("retry_after", retry_after),
    ("seed", seed),
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
