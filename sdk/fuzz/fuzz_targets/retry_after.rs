//! See `dealkit_fuzz::retry_after`.
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(retry_after);
