//! See `dealkit_fuzz::request`.
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(request);
