//! Words of documents, such as statuses and labels, as str: the same few come again and again.

use pyo3::{prelude::*, types::PyString};

/// How many words are kept, a power of two.
const KEPT: usize = 1 << KEPT_BITS;
const KEPT_BITS: u32 = 9;

/// How long a word is at most, in bytes.
const LONGEST: usize = 15;

/// The words that were read last, each at the place that its key gives it.
pub(crate) struct Words(Box<[Option<(Key, Py<PyString>)>]>);

impl Default for Words {
    fn default() -> Self {
        Self(std::iter::repeat_with(|| None).take(KEPT).collect())
    }
}

impl Words {
    /// The str of a text, which `make` makes if it is not one of the words that were read last.
    #[inline]
    pub(crate) fn get(
        &mut self,
        py: Python<'_>,
        text: &str,
        make: impl FnOnce() -> Py<PyString>,
    ) -> Py<PyString> {
        let Some((key, slot)) =
            Key::of(text).and_then(|key| Some((key, self.0.get_mut(key.place())?)))
        else {
            return make();
        };
        match slot {
            Some((kept, word)) if *kept == key => word.clone_ref(py),
            _ => {
                let word = make();
                *slot = Some((key, word.clone_ref(py)));
                word
            }
        }
    }
}

/// All of a short text as numbers, which compare faster than texts do.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    bytes: u128,
    length: u8,
}

impl Key {
    /// `None` for a text that is too long.
    #[inline]
    fn of(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() > LONGEST {
            return None;
        }
        // The beginning and the end, which overlap where the text is shorter than both: with the length, that is
        // all of it.
        let bytes = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            u128::from(first) | u128::from(last) << 64
        } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u128::from(first) | u128::from(last) << 32
        } else {
            text.iter()
                .fold(0, |bytes, byte| bytes << 8 | u128::from(*byte))
        };
        Some(Self {
            bytes,
            length: text.len() as u8,
        })
    }

    /// Where a text of this key is kept.
    #[inline]
    fn place(self) -> usize {
        let (first, last) = (self.bytes as u64, (self.bytes >> 64) as u64);
        scatter(
            first ^ last.rotate_left(29) ^ u64::from(self.length),
            KEPT_BITS,
        )
    }
}

/// Spreads numbers over `1 << bits` places (Fibonacci hashing). Who knows it can have two meet in one place, and then
/// one is made anew: no more than without a place.
#[inline]
pub(crate) fn scatter(number: u64, bits: u32) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}
