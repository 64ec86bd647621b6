//! Hashes that a ledger stores in place of keys, requests and e-mail addresses, because these are personal data.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use blake2::{Blake2b128, Digest as _};
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::{CodePointMapData, props::GeneralCategory};
use serde_json::value::RawValue;

/// Returns whether keys with this name are compared without regard to case: e-mail addresses that differ only in case reach the
/// same mailbox.
pub(super) fn ignores_case(key_name: Option<&str>) -> bool {
    key_name == Some("email")
}

/// Normalizes a key for comparison, as a ledger does if its keys have this name. Rows whose normalized keys are equal are the
/// same row.
///
/// The result is in Unicode's normal form C, without invisible format characters (category Cf), and in lower case if the keys
/// are named `email`.
///
/// ```
/// use dealkit::ledger::normalize_key;
///
/// assert_eq!(normalize_key("email", "Ada@Example.com\u{200b}"), "ada@example.com");
/// assert_eq!(normalize_key(None, "e\u{301}"), "\u{e9}");
/// ```
pub fn normalize_key<'a>(name: impl Into<Option<&'a str>>, key: &str) -> String {
    normalize(name.into(), key).into_owned()
}

/// Normalizes a key for comparison: Unicode form NFC, without format characters (category Cf), and in lower case if the keys
/// are named `email`. Programs that copy a table may write `é` as one or as two characters, and may add invisible characters to
/// cells.
pub(crate) fn normalize<'a>(key_name: Option<&str>, key: &'a str) -> Cow<'a, str> {
    let visible_text: Cow<'a, str> = if key.is_ascii() {
        key.into()
    } else {
        let categories = CodePointMapData::<GeneralCategory>::new();
        let is_visible = |c: &char| categories.get(*c) != GeneralCategory::Format;
        let visible_text: String = key.chars().filter(is_visible).collect();
        let nfc = ComposingNormalizerBorrowed::new_nfc();
        nfc.normalize(&visible_text).into_owned().into()
    };
    if ignores_case(key_name) {
        visible_text.to_lowercase().into()
    } else {
        visible_text
    }
}

/// The 32 random bytes that begin the input of each hash of a ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub(super) [u8; 32]);

/// The hash that a ledger stores in place of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(pub(super) [u8; 16]);

/// The hash that a ledger stores in place of a request or an e-mail address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ValueHash(pub(super) [u8; 16]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ValueHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// Writes a hash as hexadecimal digits, on one line even in the alternate format.
fn write_hex(hash: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl Salt {
    /// Hashes a key, normalized for keys with this name.
    pub(super) fn hash_key(&self, key_name: Option<&str>, key: &str) -> KeyHash {
        KeyHash(self.hash("", normalize(key_name, key).as_bytes()))
    }

    /// Hashes an e-mail address, normalized as a key with the name `email` is.
    pub(crate) fn hash_email(&self, email: &str) -> ValueHash {
        ValueHash(self.hash("email\0", normalize(Some("email"), email.trim()).as_bytes()))
    }

    /// Hashes a request. Requests have equal hashes if they differ only in the order of members, white space or escapes.
    pub(crate) fn hash_request(&self, body: &[u8]) -> ValueHash {
        let mut canonical = String::with_capacity(body.len());
        let is_written = serde_json::from_slice(body)
            .is_ok_and(|json| write_canonical(json, MAX_DEPTH, &mut canonical).is_ok());
        let body = if is_written {
            canonical.as_bytes()
        } else {
            body
        };
        ValueHash(self.hash("request\0", body))
    }

    /// Hashes the header of the ledger with this salt.
    pub(super) fn hash_header(&self, header: &[u8]) -> [u8; 16] {
        self.hash("header\0", header)
    }

    /// Computes the BLAKE2b hash of the salt, the purpose and the value. Equal values with different purposes have different
    /// hashes.
    fn hash(&self, purpose: &str, value: &[u8]) -> [u8; 16] {
        let hash = Blake2b128::new_with_prefix(self.0);
        hash.chain_update(purpose)
            .chain_update(value)
            .finalize()
            .into()
    }
}

/// The depth to which [`write_canonical`] descends. Deeper values are written unchanged.
const MAX_DEPTH: usize = 127;

/// Writes JSON in one canonical form: the members of each object sorted by name, no white space, and strings with only the
/// required escapes. Numbers keep their digits.
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
