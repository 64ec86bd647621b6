//! Tape: the bytes from which a schedule reads its decisions. Zero is always the harmless choice, and zeros follow the end of a
//! tape, so a shorter tape with more zeros is a simpler schedule.

use std::time::Duration;

use proptest::{
    collection::vec,
    prelude::{Strategy, any},
    prop_oneof,
    strategy::{Just, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// The largest number of bytes of a tape.
const MAX_LENGTH: usize = 400;

#[derive(Debug)]
pub(crate) struct Tape {
    bytes: Vec<u8>,
    read: usize,
}

impl Tape {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, read: 0 }
    }

    /// Reads a byte.
    pub(crate) fn read_byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.read).copied();
        self.read += 1;
        byte.unwrap_or(0)
    }

    /// Reads a time: mostly short, up to about two minutes.
    pub(crate) fn read_time(&mut self) -> Duration {
        let byte = u64::from(self.read_byte());
        Duration::from_millis(match byte {
            0..128 => byte * 5,
            128..224 => (byte - 127) * 200,
            _ => (byte - 220) * 3500,
        })
    }
}

/// Makes the tape of a seed, which proptest can simplify.
pub(crate) fn from_seed(seed: u64) -> impl ValueTree<Value = Vec<u8>> {
    let mut bytes = [0; 32];
    for (target, byte) in bytes.iter_mut().zip(seed.to_le_bytes()) {
        *target = byte;
    }
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    // The share of zeros varies, from hardly any to nearly all.
    let tapes = (0..16_u32).prop_flat_map(|zeros| {
        vec(
            prop_oneof![zeros => Just(0), 4 => any::<u8>()],
            0..MAX_LENGTH,
        )
    });
    #[expect(clippy::expect_used, reason = "this strategy rejects nothing")]
    tapes.new_tree(&mut runner).expect("a tape")
}
