//! The hashes that replace keys in a ledger, because a key may be an e-mail address.

use std::borrow::Cow;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Whether keys with this name are compared without regard to case: people write an e-mail address in any, and mean the same
/// mailbox.
pub(super) fn ignore_case(keys: Option<&str>) -> bool {
    keys == Some("email")
}

/// A key as keys with this name are compared.
pub(crate) fn compared<'a>(keys: Option<&str>, key: &'a str) -> Cow<'a, str> {
    if ignore_case(keys) {
        key.to_lowercase().into()
    } else {
        key.into()
    }
}

#[derive(Clone)]
pub(super) struct Hasher(Hmac<Sha256>);

/// What is hashed to check a salt.
const CHECKED: &str = "dealkit-ledger";

impl Hasher {
    pub(super) fn new(salt: &[u8; 32]) -> Self {
        // HMAC pads a key that is shorter than a block with zeros, so this is the same key.
        let mut block = [0; 64];
        for (place, byte) in block.iter_mut().zip(salt) {
            *place = *byte;
        }
        Self(KeyInit::new(&block.into()))
    }

    /// The hash of a key: the first half of its HMAC-SHA-256.
    pub(super) fn hash(&self, key: &str) -> KeyHash {
        let [first, _] = halves(self.mac(key));
        KeyHash(first)
    }

    /// Shows whether the salt is the one with which a ledger began: the second half of a hash, so it gives away no key.
    pub(super) fn check(&self) -> [u8; 16] {
        let [_, second] = halves(self.mac(CHECKED));
        second
    }

    fn mac(&self, text: &str) -> [u8; 32] {
        self.0
            .clone()
            .chain_update(text)
            .finalize()
            .into_bytes()
            .into()
    }
}

fn halves(bytes: [u8; 32]) -> [[u8; 16]; 2] {
    let mut halves = [[0; 16]; 2];
    for (place, byte) in halves.as_flattened_mut().iter_mut().zip(bytes) {
        *place = byte;
    }
    halves
}

/// The hash that replaces a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(pub(super) [u8; 16]);
