//! Runnable examples of dealkit; each file next to this one is a separate
//! program.
//!
//! Start a sandbox (`cargo run -p dealkit-server`), point `DEALKIT_BASE_URL`
//! and `DEALKIT_SERVICE_KEY` at it, and run one: `cargo run -p dealkit-examples
//! --example quickstart`.
