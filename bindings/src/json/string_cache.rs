//! Cache of the short strings in documents, such as statuses and labels, which often repeat.

use std::convert::Infallible;

use pyo3::{prelude::*, types::PyString};

use crate::python::{ascii, object_cache::ObjectCache};

/// Maximum length of a cached string, in bytes.
const MAX_LENGTH: usize = 15;

/// Makes str objects, and caches recent short strings.
#[derive(Default)]
pub(crate) struct StringCache(ObjectCache<Key, PyString>);

impl StringCache {
    #[inline]
    pub(crate) fn get_or_make(&mut self, py: Python<'_>, text: &str) -> Py<PyString> {
        let make = || Ok::<_, Infallible>(ascii::new_str(py, text).unbind());
        let Ok(string) = match Key::new(text) {
            Some(key) => self.0.get_or_make(py, key, key.hash(), make),
            None => make(),
        };
        string
    }
}

/// A short string as numbers, which compare faster than strings.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    bytes: u128,
    length: u8,
}

impl Key {
    /// Returns `None` if the text is too long to be cached.
    #[inline]
    fn new(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() > MAX_LENGTH {
            return None;
        }
        // The first and the last bytes, which may overlap. Together with the length, they determine the text.
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

    /// Returns a hash, which differs for most different strings.
    #[inline]
    fn hash(self) -> u64 {
        let (first, last) = (self.bytes as u64, (self.bytes >> 64) as u64);
        first ^ last.rotate_left(29) ^ u64::from(self.length)
    }
}
