//! SplitMix64, a pseudorandom number generator whose output never changes for a seed.
//!
//! Published by Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014. The crate `rand` may change
//! the output for a seed between versions, but users' tests rely on the values of generated deals such as `g_17`.

#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

    /// Creates an independent generator for each index of the same seed.
    pub(crate) fn for_index(seed: u64, index: u64) -> Self {
        let mut outer = Self { state: seed };
        let state = outer.next() ^ index.wrapping_mul(Self::GOLDEN);
        // SplitMix64 advances its state by a fixed step. Without this mixing, two generators could produce the same sequence,
        // shifted.
        Self {
            state: Self { state }.next(),
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::GOLDEN);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn next_fraction(&mut self) -> f64 {
        // An f64 has 53 bits of precision.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from `least` to `most`, both inclusive. The bias of the remainder is negligible for test data.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub(crate) fn pick<'w>(&mut self, choices: &[&'w str]) -> &'w str {
        let index = self.next() as usize % choices.len().max(1);
        choices.get(index).copied().unwrap_or_default()
    }
}
