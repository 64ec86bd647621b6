//! Words in documents, such as statuses and labels, as str: the same few occur again and again.

use std::convert::Infallible;

use pyo3::{prelude::*, types::PyString};

use crate::python::{ascii, kept::Kept};

/// The maximum length of a word, in bytes.
const LONGEST: usize = 15;

/// Makes words, and keeps the most recent ones.
#[derive(Default)]
pub(crate) struct Words(Kept<Key, PyString>);

impl Words {
    #[inline]
    pub(crate) fn get(&mut self, py: Python<'_>, text: &str) -> Py<PyString> {
        let make = || Ok::<_, Infallible>(ascii::string(py, text).unbind());
        let Ok(word) = match Key::of(text) {
            Some(key) => self.0.get(py, key, key.number(), make),
            None => make(),
        };
        word
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
        // The beginning and the end, which overlap if the text is shorter than both: with the length, they determine
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

    /// Both combined into one number: different words mostly have different numbers.
    #[inline]
    fn number(self) -> u64 {
        let (first, last) = (self.bytes as u64, (self.bytes >> 64) as u64);
        first ^ last.rotate_left(29) ^ u64::from(self.length)
    }
}
