//! Service keys: validation, constant-time comparison, and the keys and prefixes that create namespaces.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
};

use dealkit::internal::wire;
use http::HeaderName;
use subtle::ConstantTimeEq;

/// The name of the header that contains the service key, parsed once instead of on each lookup.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::SERVICE_KEY_HEADER);

/// A key that requests send in `x-service-key`. `Debug` omits it.
#[derive(Clone)]
pub(crate) struct ServiceKey(Box<str>);

/// An invalid service key. The message omits the key, which may be a real key with a typing mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a service key must be 1 to 1,024 visible ASCII characters, without spaces")]
pub struct InvalidServiceKey;

impl ServiceKey {
    /// The documented default key. The key is not a secret. A server with this key therefore listens on loopback only.
    pub(crate) const DEFAULT: &str = "sandbox-key";

    pub(crate) fn new(key: impl Into<String>) -> Result<Self, InvalidServiceKey> {
        let key = key.into();
        if wire::is_service_key(&key) {
            Ok(Self(key.into()))
        } else {
            Err(InvalidServiceKey)
        }
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns true for [`ServiceKey::DEFAULT`], which is not a secret.
    pub(crate) fn is_default(&self) -> bool {
        *self.0 == *Self::DEFAULT
    }

    /// Compares in constant time. The duration depends on the lengths only, and therefore reveals no prefix of the key.
    pub(crate) fn matches(&self, candidate: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(candidate).into()
    }
}

impl Default for ServiceKey {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceKey(…)")
    }
}

/// The service keys that create namespaces, the separate states of a shared server (see `sandbox/namespace.rs`): listed keys, and
/// all keys with a listed prefix. `Debug` omits them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceKeys(Vec<ServiceKey>);

impl NamespaceKeys {
    /// Parses keys and prefixes (`prefix*`), separated by commas. Returns `None` if a key or prefix is invalid or longer than 1,000
    /// characters.
    pub(crate) fn parse(keys: &str) -> Option<Self> {
        let keys = keys.split(',').map(str::trim).map(|text| {
            let stem = text.strip_suffix('*').unwrap_or(text);
            let is_valid = (1..=1_000).contains(&stem.len()) && !stem.contains('*');
            ServiceKey::new(text).ok().filter(|_| is_valid)
        });
        keys.collect::<Option<_>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the candidate as a key if it may create a namespace.
    pub(crate) fn match_key(&self, candidate: &[u8]) -> Option<ServiceKey> {
        let is_match = self.0.iter().any(|key| match key.0.strip_suffix('*') {
            Some(prefix) => {
                let start = candidate.get(..prefix.len());
                start.is_some_and(|start| prefix.as_bytes().ct_eq(start).into())
            }
            None => key.matches(candidate),
        });
        let candidate = str::from_utf8(candidate).ok().filter(|_| is_match)?;
        ServiceKey::new(candidate).ok()
    }

    /// Generates an unused key with the first prefix.
    pub(crate) fn generate_key(&self) -> Option<ServiceKey> {
        let random = RandomState::new().hash_one("namespace");
        let mut prefixes = self.0.iter().filter_map(|key| key.0.strip_suffix('*'));
        ServiceKey::new(format!("{}{random:016x}", prefixes.next()?)).ok()
    }
}
