//! How callers reach the server.

/// The scheme of its URL, and what they have to trust.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) is_tls: bool,
    /// The certificate of the issuer that the server made for its own.
    pub(crate) ca_pem: Option<String>,
}

impl Reached {
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
