//! Runnable examples of dealkit; each file beside this one is a program of its own.
//!
//! Start a sandbox (`cargo run -p dealkit-server`), point `DEALKIT_BASE_URL` and `DEALKIT_SERVICE_KEY`
//! at it, and run one: `cargo run -p dealkit-examples --example quickstart`.

/// The README's programs, compiled, and run where they need nothing from outside.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
