//! The configuration of all property tests: every run has the same random numbers, unless `DEALKIT_SOAK` is set.
#![allow(dead_code, unreachable_pub, reason = "each program uses its own part")]

use std::env;

use proptest::test_runner::{Config, RngSeed};

/// The seed of a run that is not a soak.
const SEED: u64 = 20_261_128;

/// Configures a property test with the usual number of cases, which `PROPTEST_CASES` changes. Prints the seed, which is shown if
/// the test fails; `PROPTEST_RNG_SEED` repeats that run.
pub fn config() -> Config {
    let config = Config::default();
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random if env::var_os("DEALKIT_SOAK").is_some() => fastrand::u64(..),
        RngSeed::Random => SEED,
    };
    eprintln!("PROPTEST_RNG_SEED={seed}");
    Config {
        rng_seed: RngSeed::Fixed(seed),
        // The seed repeats a failure.
        failure_persistence: None,
        ..config
    }
}

/// Configures a property test that has this many cases.
pub fn with_cases(cases: u32) -> Config {
    Config { cases, ..config() }
}
