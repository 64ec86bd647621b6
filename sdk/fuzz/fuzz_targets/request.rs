//! See `dealkit_fuzz::request`.
#![allow(
    unexpected_cfgs,
    reason = "cargo-fuzz sets cfg(fuzzing), which cargo does not know"
)]
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(request);
