//! See `dealkit_fuzz::identifier`.
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(identifier);
