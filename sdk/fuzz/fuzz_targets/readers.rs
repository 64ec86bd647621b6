//! See `dealkit_fuzz::readers`.
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(readers);
