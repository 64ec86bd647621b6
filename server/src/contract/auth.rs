//! The service key: which texts are valid, and a comparison that does not reveal how much of a guess was right.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
};

use dealkit::internal::wire;
use http::HeaderName;
use subtle::ConstantTimeEq;

/// The header name, parsed once: looking up a string would parse it each time.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::SERVICE_KEY_HEADER);

/// The key that a request must carry in `x-service-key`. Never shown by `Debug`.
#[derive(Clone)]
pub(crate) struct ServiceKey(Box<str>);

/// The text is not a valid service key. The message does not repeat it: it may be a real key with a typing mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a service key must be 1 to 1,024 visible ASCII characters, without spaces")]
pub struct InvalidServiceKey;

impl ServiceKey {
    /// The documented key of a server that was given no other. Everyone knows it, so such a server listens only on
    /// loopback.
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

    /// Whether it is [`ServiceKey::DEFAULT`], which is not a secret.
    pub(crate) fn is_default(&self) -> bool {
        *self.0 == *Self::DEFAULT
    }

    /// Whether `candidate` is the key. The time that this takes depends on the lengths, not on how many
    /// characters agree.
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

/// Which keys have a world of their own, beside the key of the server: those that are listed, and any that begins with one
/// of the prefixes. Never shown by `Debug`: they are keys too.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorldKeys(Vec<ServiceKey>);

impl WorldKeys {
    /// Keys, and prefixes that end in `*`, separated by commas, if all are valid and have at most 1,000 characters.
    pub(crate) fn new(keys: &str) -> Option<Self> {
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

    /// The candidate as a key, if it has a world.
    pub(crate) fn find(&self, candidate: &[u8]) -> Option<ServiceKey> {
        let found = self.0.iter().any(|key| match key.0.strip_suffix('*') {
            Some(prefix) => {
                let part = candidate.get(..prefix.len());
                part.is_some_and(|part| prefix.as_bytes().ct_eq(part).into())
            }
            None => key.matches(candidate),
        });
        let candidate = str::from_utf8(candidate).ok().filter(|_| found)?;
        ServiceKey::new(candidate).ok()
    }

    /// A key that nobody has used, with the first prefix.
    pub(crate) fn made_up(&self) -> Option<ServiceKey> {
        let random = RandomState::new().hash_one("world");
        let mut prefixes = self.0.iter().filter_map(|key| key.0.strip_suffix('*'));
        ServiceKey::new(format!("{}{random:016x}", prefixes.next()?)).ok()
    }
}
