//! See `dealkit_fuzz::create_agent`.
#![cfg_attr(fuzzing, no_main)]

dealkit_fuzz::fuzz_target!(create_agent);
