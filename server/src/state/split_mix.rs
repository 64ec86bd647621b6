//! Numbers that look random and are the same for the same seed, today and with any later version.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
//! 2014), written out here in ten lines: the random crates reserve the right to change what a seed gives
//! from one version to the next, and a test that names a value of `g_17` must not break with an update.

/// SplitMix64, as its authors published it.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

    /// The generator for the `index`th of many things, each with a state of its own.
    pub(crate) fn of(seed: u64, index: u64) -> Self {
        let mut outer = Self { state: seed };
        let state = outer.next() ^ index.wrapping_mul(Self::GOLDEN);
        // Mixed once, so that the states of two of them are no fixed step apart: SplitMix64 advances in fixed steps.
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

    /// A number from 0 up to, but not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        // The 53 bits that a float of this size holds.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from `least` to `most`. The tiny bias of the remainder does not matter here.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub(crate) fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        let index = self.next() as usize % words.len().max(1);
        words.get(index).copied().unwrap_or_default()
    }
}
