//! See `dealkit_fuzz::seed`.
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(seed);
