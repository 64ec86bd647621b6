//! Texts in which settings and entries are data: each front (Rust, Python, the command) calls them by its own names.

use std::{borrow::Cow, fmt};

use super::named_enum;

named_enum! {
    /// A setting of a client, a call or a job, or an operation on a ledger, as far as error texts name it; see [`Words`].
    #[non_exhaustive]
    Setting {
        /// The service's address.
        BaseUrl = "base_url",
        /// The key issued to the caller.
        ServiceKey = "service_key",
        /// The file with the key.
        ServiceKeyFile = "service_key_file",
        /// The time limit of a whole call.
        Timeout = "timeout",
        /// The time limit of an attempt.
        AttemptTimeout = "attempt_timeout",
        /// The time limit for making a connection.
        ConnectTimeout = "connect_timeout",
        /// Whether plain `http` to another machine is allowed.
        AllowHttp = "allow_http",
        /// The proxy.
        Proxy = "proxy",
        /// The certificates that are trusted in addition to the system's.
        RootCertificates = "root_certificates",
        /// The certificates that are trusted instead of the system's.
        OnlyRootCertificates = "only_root_certificates",
        /// The certificate that the client presents.
        Identity = "identity",
        /// Whether HTTP/2 is spoken from the first byte.
        Http2PriorKnowledge = "http2_prior_knowledge",
        /// The `User-Agent` header.
        UserAgent = "user_agent",
        /// The maximum number of requests a second.
        RateLimit = "rate_limit",
        /// The largest response body that is read.
        MaxResponseBytes = "max_response_bytes",
        /// What becomes of an optional field that cannot be read.
        Unreadable = "unreadable",
        /// The operation that records a new URL of a ledger's service.
        SetLedgerBaseUrl = "Ledger::set_base_url",
        /// The operation that creates a ledger's tables in a database.
        InitLedger = "Ledger::init",
    }
}

/// A text that says what went wrong, with the settings and entries in it as data.
///
/// `Display` calls settings by their names in Rust. A program whose users know them by other names, such as a command with
/// options, puts those in place:
///
/// ```
/// use dealkit::{Client, Piece, Setting};
///
/// let error = Client::builder().base_url("deals.example.com").service_key("k").build().unwrap_err();
/// assert!(error.to_string().starts_with("base_url is not an absolute URL"));
/// let text = error.words().with_names(|setting| match setting {
///     Setting::BaseUrl => "--base-url",
///     other => other.as_str(),
/// });
/// assert!(text.starts_with("--base-url is not an absolute URL"));
/// assert_eq!(error.words().pieces().first(), Some(&Piece::Setting(Setting::BaseUrl)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<Piece>);

/// A piece of [`Words`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Piece {
    /// Text to show as it is.
    Text(Cow<'static, str>),
    /// A setting, by whatever name the reader knows it.
    Setting(Setting),
    /// One of the entries that were given to [`Ledger::settle`](crate::ledger::Ledger::settle), by its index.
    Entry(usize),
}

impl Words {
    /// The pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The text, with the name that `name` gives each setting; an entry is `the entry at index 3`.
    pub fn with_names<N: AsRef<str>>(&self, mut name: impl FnMut(Setting) -> N) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Setting(setting) => text.push_str(name(*setting).as_ref()),
                Piece::Entry(index) => text.push_str(&format!("the entry at index {index}")),
            }
        }
        text
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_names(Setting::as_str))
    }
}

impl From<&'static str> for Piece {
    fn from(text: &'static str) -> Self {
        Piece::Text(text.into())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Piece::Text(text.into())
    }
}

impl From<Setting> for Piece {
    fn from(setting: Setting) -> Self {
        Piece::Setting(setting)
    }
}

impl<T: Into<Piece>> From<T> for Words {
    fn from(piece: T) -> Self {
        Self(vec![piece.into()])
    }
}

/// A text with a `{}` for each setting, text or other [`Words`] that follow.
macro_rules! words {
    ($template:literal $(, $part:expr)* $(,)?) => {
        $crate::value::words::Words::fill($template, [$($crate::value::words::Words::from($part)),*])
    };
}

pub(crate) use words;

impl Words {
    pub(crate) fn fill<const N: usize>(template: &'static str, parts: [Words; N]) -> Self {
        debug_assert_eq!(template.matches("{}").count(), N, "{template}");
        let parts = parts.into_iter().chain([Words::default()]);
        let mut words = Words::default();
        for (text, part) in template.split("{}").zip(parts) {
            let pieces = std::iter::once(text.into()).chain(part.0);
            words
                .0
                .extend(pieces.filter(|piece| *piece != Piece::from("")));
        }
        words
    }
}
