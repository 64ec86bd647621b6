//! Error messages that concern a setting of a client or a call.

use std::{borrow::Cow, fmt};

/// A setting of a client or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The URL of the service.
    BaseUrl,
    /// The service key, or the function that provides it.
    ServiceKey,
    /// The file with the service key.
    ServiceKeyFile,
    /// The time limit of a whole call.
    Timeout,
    /// The time limit of one attempt.
    AttemptTimeout,
    /// The time limit for making a connection.
    ConnectTimeout,
    /// Permission to send plain `http` to another machine.
    AllowHttp,
    /// The proxy.
    Proxy,
    /// The certificates that are trusted in addition to the system's.
    RootCertificates,
    /// The certificates that are trusted instead of the system's.
    OnlyRootCertificates,
    /// The certificate that the client presents.
    Identity,
    /// The `User-Agent` header.
    UserAgent,
    /// The maximum number of requests per second.
    RateLimit,
    /// The size of the largest response body that is read.
    MaxResponseBytes,
    /// The handling of an optional field that cannot be read.
    Unreadable,
}

impl Setting {
    /// Returns the name of the Rust method that sets it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::BaseUrl => "base_url",
            Self::ServiceKey => "service_key",
            Self::ServiceKeyFile => "service_key_file",
            Self::Timeout => "timeout",
            Self::AttemptTimeout => "attempt_timeout",
            Self::ConnectTimeout => "connect_timeout",
            Self::AllowHttp => "allow_http",
            Self::Proxy => "proxy",
            Self::RootCertificates => "root_certificates",
            Self::OnlyRootCertificates => "only_root_certificates",
            Self::Identity => "identity",
            Self::UserAgent => "user_agent",
            Self::RateLimit => "rate_limit",
            Self::MaxResponseBytes => "max_response_bytes",
            Self::Unreadable => "unreadable",
        }
    }
}

/// An error message, and the setting that it concerns, if any.
///
/// The name of the setting differs between languages, and is therefore not part of the text. The name stands before the text,
/// as its subject, or after the text, in brackets.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    prefix: &'static str,
    text: Cow<'static, str>,
    setting: Option<Setting>,
    is_subject: bool,
}

impl Message {
    /// Returns the message that a setting is invalid. The text continues the setting's name: `must be more than zero`.
    pub(crate) fn about(setting: Setting, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            prefix: "",
            text: text.into(),
            setting: Some(setting),
            is_subject: true,
        }
    }

    /// Refers the reader to a setting at the end of the message: `raise the limit to read it [see max_response_bytes]`.
    pub(crate) fn see(self, setting: Setting) -> Self {
        Self {
            setting: Some(setting),
            ..self
        }
    }

    /// Puts a text before the message.
    pub(crate) fn with_prefix(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }

    pub(crate) fn setting(&self) -> Option<Setting> {
        self.setting
    }

    /// Returns the text, after the setting's name if that is the subject.
    pub(crate) fn text(&self, name: SettingName) -> String {
        let Self { prefix, text, .. } = self;
        match self.setting {
            Some(setting) if self.is_subject => {
                format!("{prefix}{} {text}", name(setting.as_str()))
            }
            _ => format!("{prefix}{text}"),
        }
    }

    /// Returns the reference to the setting that ends the whole message, or an empty string.
    pub(crate) fn reference(&self, name: SettingName) -> String {
        match self.setting {
            Some(setting) if !self.is_subject => format!(" [see {}]", name(setting.as_str())),
            _ => String::new(),
        }
    }
}

/// A function that returns the name of a setting in another language, given its name in Rust.
pub(crate) type SettingName = fn(&'static str) -> &'static str;

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rust_name: SettingName = |name| name;
        write!(f, "{}{}", self.text(rust_name), self.reference(rust_name))
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Message {
    fn from(text: T) -> Self {
        Self {
            prefix: "",
            text: text.into(),
            setting: None,
            is_subject: false,
        }
    }
}
