//! The hashes that replace keys in a ledger, because a key may be an e-mail address.

use std::{borrow::Cow, fmt};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Hashes keys.
#[derive(Clone)]
pub(super) struct Hasher(Hmac<Sha256>);

impl Hasher {
    pub(super) fn new(salt: &[u8; 32]) -> Self {
        // HMAC pads a key that is shorter than a block with zeros, so this is the same key.
        let mut block = [0; 64];
        for (place, byte) in block.iter_mut().zip(salt) {
            *place = *byte;
        }
        Self(KeyInit::new(&block.into()))
    }

    pub(super) fn hash(&self, key: &str) -> KeyHash {
        KeyHash(Hex(self
            .0
            .clone()
            .chain_update(key)
            .finalize()
            .into_bytes()
            .into()))
    }
}

/// The hash that replaces a key: its HMAC-SHA-256 under the salt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct KeyHash(Hex);

/// 32 bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "Cow<'_, str>")]
pub(super) struct Hex(pub(super) [u8; 32]);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({})", self.0)
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Hex> for String {
    fn from(hex: Hex) -> Self {
        hex.to_string()
    }
}

impl TryFrom<Cow<'_, str>> for Hex {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs
            .iter()
            .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
            .collect();
        bytes
            .filter(|_| rest.is_empty())
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or("expected 64 hexadecimal digits")
    }
}
