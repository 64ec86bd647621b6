//! Hashes that a ledger stores in place of keys, requests and e-mail addresses, because these are personal data.

use std::{borrow::Cow, collections::BTreeMap};

use blake2::{Blake2b128, Digest as _};
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::{CodePointMapData, props::GeneralCategory};
use serde_json::value::RawValue;

/// Whether keys with this name are compared without regard to case. The same mailbox has addresses in any case.
pub(super) fn ignore_case(keys: Option<&str>) -> bool {
    keys == Some("email")
}

/// Returns the form in which a ledger compares a key, if its keys have this name: two rows whose keys have the same form are the same
/// row.
///
/// That is Unicode's normal form C, without invisible format characters (category Cf), and in lower case if the keys are named
/// `email`.
///
/// ```
/// use dealkit::ledger::normalize_key;
///
/// assert_eq!(normalize_key("email", "Ada@Example.com\u{200b}"), "ada@example.com");
/// assert_eq!(normalize_key(None, "e\u{301}"), "\u{e9}");
/// ```
pub fn normalize_key<'a>(name: impl Into<Option<&'a str>>, key: &str) -> String {
    normalized(name.into(), key).into_owned()
}

/// Normalizes a key for comparison: Unicode form NFC, without format characters (category Cf), and in lower case if the keys are
/// named `email`. Programs that copy a table write `é` in either form, and add invisible characters to cells.
pub(crate) fn normalized<'a>(keys: Option<&str>, key: &'a str) -> Cow<'a, str> {
    let visible: Cow<'a, str> = if key.is_ascii() {
        key.into()
    } else {
        let categories = CodePointMapData::<GeneralCategory>::new();
        let is_visible = |c: &char| categories.get(*c) != GeneralCategory::Format;
        let visible: String = key.chars().filter(is_visible).collect();
        let nfc = ComposingNormalizerBorrowed::new_nfc();
        nfc.normalize(&visible).into_owned().into()
    };
    if ignore_case(keys) {
        visible.to_lowercase().into()
    } else {
        visible
    }
}

/// The 32 random bytes that begin the input of each hash of a ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub(super) [u8; 32]);

/// The hash that a ledger stores in place of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(pub(super) [u8; 16]);

/// The hash that a ledger stores in place of a request or an e-mail address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest(pub(super) [u8; 16]);

impl Salt {
    /// Hashes a key, normalized for this name of the keys.
    pub(super) fn hash_key(&self, keys: Option<&str>, key: &str) -> KeyHash {
        KeyHash(self.hash("", normalized(keys, key).as_bytes()))
    }

    /// Hashes an e-mail address, compared as keys named `email` are.
    pub(crate) fn hash_email(&self, email: &str) -> Digest {
        Digest(self.hash(
            "email\0",
            normalized(Some("email"), email.trim()).as_bytes(),
        ))
    }

    /// Hashes a request. Requests that differ only in the order of members, white space or escapes have the same hash.
    pub(crate) fn hash_request(&self, body: &[u8]) -> Digest {
        let mut canonical = String::with_capacity(body.len());
        let is_written = serde_json::from_slice(body)
            .is_ok_and(|json| write_canonical(json, MAX_DEPTH, &mut canonical).is_ok());
        let body = if is_written {
            canonical.as_bytes()
        } else {
            body
        };
        Digest(self.hash("request\0", body))
    }

    /// Checks bytes of the header of the ledger that has this salt.
    pub(super) fn hash_header(&self, header: &[u8]) -> [u8; 16] {
        self.hash("header\0", header)
    }

    /// The BLAKE2b of the salt, the purpose and the value.
    fn hash(&self, purpose: &str, value: &[u8]) -> [u8; 16] {
        let hash = Blake2b128::new_with_prefix(self.0);
        hash.chain_update(purpose)
            .chain_update(value)
            .finalize()
            .into()
    }
}

/// The depth to which [`write_canonical`] descends: deeper values are written unchanged.
const MAX_DEPTH: usize = 127;

/// Writes JSON with the members of each object sorted by name, without white space, and with strings escaped in one way.
/// Numbers stay as they are written.
fn write_canonical(json: &RawValue, depth: usize, out: &mut String) -> serde_json::Result<()> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'{') if depth > 0 => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let mut separator = '{';
            for (name, value) in members {
                out.push(separator);
                out.push_str(&serde_json::to_string(&name)?);
                out.push(':');
                write_canonical(value, depth - 1, out)?;
                separator = ',';
            }
            out.push_str(if separator == '{' { "{}" } else { "}" });
        }
        Some(b'[') if depth > 0 => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let mut separator = '[';
            for item in items {
                out.push(separator);
                write_canonical(item, depth - 1, out)?;
                separator = ',';
            }
            out.push_str(if separator == '[' { "[]" } else { "]" });
        }
        Some(b'"') => {
            let string: String = serde_json::from_str(text)?;
            out.push_str(&serde_json::to_string(&string)?);
        }
        _ => out.push_str(text),
    }
    Ok(())
}
