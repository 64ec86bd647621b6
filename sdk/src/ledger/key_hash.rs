//! The hashes that replace keys in a ledger, because a key may be an e-mail address.

use std::borrow::Cow;

use blake2::{Blake2b128, Digest as _};

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

/// The BLAKE2b of a ledger's salt and a key. That of the empty key, which no row has, shows whether the salt is the one with
/// which the ledger began.
pub(super) fn hash(salt: &[u8; 32], key: &str) -> KeyHash {
    let hash = Blake2b128::new_with_prefix(salt).chain_update(key);
    KeyHash(hash.finalize().into())
}

/// The hash that replaces a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(pub(super) [u8; 16]);
