//! The settings of a server.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{
    Args, ValueEnum,
    builder::{BoolishValueParser, RangedU64ValueParser},
};

use crate::{
    contract::auth::{InvalidServiceKey, ServiceKey, WorldKeys},
    sandbox::{RateLimit, Reading, access::Access},
    state::seed::SeedDeal,
};

/// Makes a field of [`Config`], a flag and a method of [`SandboxBuilder`] out of each setting, with the same words.
macro_rules! settings {
    (
        $( $(#[doc = $about:literal])+ $(#[arg($($flag:tt)+)])+ $name:ident: $kind:ty = $default:expr; )+
        limits: $( $(#[doc = $about_limit:literal])+ $limit:ident: $number:ty = $most:expr, $unit:literal, $least:expr; )+
        seconds: $( $(#[doc = $about_time:literal])+ $time:ident = $seconds:literal; )+
    ) => {
        /// What a server listens on, which key it asks for, and its limits. [`Config::default`] is what the binary does
        /// without flags, but for its log.
        ///
        /// ```
        /// let mut config = dealkit_server::Config::default();
        /// config.strict = true;
        /// assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
        /// ```
        #[derive(Args, Clone, Debug)]
        #[non_exhaustive]
        pub struct Config {
            /// Address and port to listen on, such as 127.0.0.1:8080 or localhost:8080; port 0 asks for a free one
            #[arg(long, global = true, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
            pub listen: SocketAddr,
            /// The key that requests must carry. Without one it is [`ServiceKey::DEFAULT`], and the address must be
            /// a loopback address.
            #[arg(skip)]
            pub service_key: Option<ServiceKey>,
            /// The token that the interface asks for. Without one, on a loopback address, the interface is open to
            /// programs on this machine, or, where a service key was chosen, that key is the token. On any other
            /// address, nobody is let in unless there is a token.
            #[arg(skip)]
            pub admin_token: Option<ServiceKey>,
            /// How to read the specification where it leaves something open: reference, ok, forbidden, bad-request, sparse,
            /// nulls, extra, numbers, times, chunked, errors-text, errors-html, errors-empty or errors-foreign; of several,
            /// separated by commas, each changes what the one before has written [default: reference]
            #[arg(long = "reading", value_name = "NAME", value_delimiter = ',')]
            pub readings: Vec<Reading>,
            /// The keys that have worlds of their own: none by default.
            #[arg(skip)]
            pub worlds: WorldKeys,
            /// Whether the server speaks TLS, and how.
            #[arg(skip)]
            pub tls: Option<Tls>,
            /// Requests of each service key in a second or a minute, such as 50/s or 600/m; those beyond that get a 429
            #[arg(long, value_name = "N/s")]
            pub rate_limit: Option<RateLimit>,
            $( $(#[doc = $about])+ $(#[arg($($flag)+)])+ pub $name: $kind, )+
            $(
                $(#[doc = $about_limit])+
                #[arg(long, value_name = $unit, default_value_t = $most, help_heading = "Limits")]
                #[arg(value_parser = RangedU64ValueParser::<$number>::new().range($least..))]
                pub $limit: $number,
            )+
            $(
                $(#[doc = $about_time])+
                #[arg(long, value_name = "SECONDS", default_value = stringify!($seconds), help_heading = "Limits")]
                #[arg(value_parser = seconds)]
                pub $time: Duration,
            )+
        }

        impl Default for Config {
            fn default() -> Self {
                Self {
                    listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
                    service_key: None,
                    admin_token: None,
                    readings: Vec::new(),
                    worlds: WorldKeys::default(),
                    tls: None,
                    rate_limit: None,
                    $( $name: $default, )+
                    $( $limit: $most, )+
                    $( $time: Duration::from_secs($seconds), )+
                }
            }
        }

        impl SandboxBuilder {
            $( settings! { @set $(#[doc = $about])+ $name: $kind } )+
            $( settings! { @set $(#[doc = $about_limit])+ $limit: $number } )+
            $( settings! { @set $(#[doc = $about_time])+ $time: Duration } )+
        }
    };
    (@set $(#[doc = $about:literal])+ $name:ident: $kind:ty) => {
        $(#[doc = $about])+
        pub fn $name(mut self, $name: $kind) -> Self {
            self.config.$name = $name;
            self
        }
    };
}

settings! {
    /// Refuse undocumented fields, to catch typing mistakes
    #[arg(long, value_parser = BoolishValueParser::new())]
    strict: bool = false;
    /// Whether the interface under `/__sandbox/` exists (except `health`, `openapi.json` and `ca.pem`, which
    /// always do), and whether the headers `x-sandbox-fault` and `x-sandbox-reading` have any effect.
    #[arg(skip = true)]
    admin: bool = true;
    /// Format of the access log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat = LogFormat::Off;

    limits:
    /// Connections served at once; others wait, as they do while the process may open no more files.
    max_connections: usize = 1_024, "N", 1;
    /// Longest request body, in bytes.
    max_body_bytes: usize = 1_048_576, "BYTES", 0;
    /// How much of all request bodies together is kept at once, in bytes; a request beyond that gets a 503.
    max_buffered_bytes: usize = 268_435_456, "BYTES", 0;
    /// How many agents can be created.
    max_agents: u64 = 1_000_000, "N", 0;
    /// How much JSON is kept, in bytes: of agents, and of deals beyond those that the server starts with; with worlds, in
    /// all of them together.
    max_store_bytes: u64 = 1_073_741_824, "BYTES", 0;
    /// How many worlds there are at once, beside that of the service key.
    max_worlds: usize = 1_000, "N", 1;
    /// Longest request head (request line and headers), in bytes; at least 8192.
    max_head_bytes: usize = 65_536, "BYTES", Config::MIN_HEAD_BYTES as u64;

    seconds:
    /// Time for a request head to arrive; also how long an idle connection is kept, and how long a response may
    /// stay unread.
    head_timeout = 10;
    /// Time for a request body to arrive.
    body_timeout = 10;
    /// Time for requests in flight to end after SIGINT or SIGTERM.
    shutdown_timeout = 5;
}

impl Config {
    /// The smallest [`Config::max_head_bytes`]: hyper needs that much.
    pub const MIN_HEAD_BYTES: usize = 8_192;

    /// Who may use the interface under `/__sandbox/`.
    pub(crate) fn access(&self) -> Access {
        if !self.admin {
            return Access::Off;
        }
        if let Some(token) = &self.admin_token {
            return Access::Token(token.clone());
        }
        if !self.listen.ip().to_canonical().is_loopback() {
            return Access::Closed;
        }
        match &self.service_key {
            Some(key) if !key.is_default() => Access::Token(key.clone()),
            _ => Access::Open,
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    numeric
        .parse()
        .map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:8080".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.001..=86_400.0).contains(seconds));
    parsed
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.001 to 86400".to_owned())
}

/// Configures and starts a [`Sandbox`](crate::Sandbox), with every setting that the program has.
///
/// ```
/// use std::time::Duration;
/// use dealkit_server::{LogFormat, Reading, Sandbox};
///
/// let sandbox = Sandbox::builder()
///     .generate(100, 7)
///     .reading(Reading::Sparse)
///     .max_agents(10)
///     .body_timeout(Duration::from_secs(1))
///     .log(LogFormat::Text)
///     .start()?;
/// # Ok::<(), dealkit_server::StartError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct SandboxBuilder {
    pub(crate) config: Config,
    pub(crate) service_key: Option<Result<ServiceKey, InvalidServiceKey>>,
    pub(crate) admin_token: Option<Result<ServiceKey, InvalidServiceKey>>,
    pub(crate) worlds: Option<String>,
    pub(crate) deals: Option<Vec<SeedDeal>>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) generate: Option<(usize, u64)>,
}

impl SandboxBuilder {
    /// A builder with the settings of `config`.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            service_key: None,
            admin_token: None,
            worlds: None,
            deals: None,
            files: Vec::new(),
            generate: None,
        }
    }

    /// Seeds deals instead of the samples: texts, `serde_json::Value`s or `dealkit::Deal`s. Texts are served
    /// byte for byte. No deals at all is a choice too: `deals::<SeedDeal>([])`.
    pub fn deals<D: Into<SeedDeal>>(mut self, deals: impl IntoIterator<Item = D>) -> Self {
        self.deals
            .get_or_insert_default()
            .extend(deals.into_iter().map(Into::into));
        self
    }

    /// Seeds the deals of a file instead of the samples: a JSON array, or one deal per line. `-` is standard
    /// input.
    pub fn deals_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Seeds `count` generated deals instead of the samples, a million at most: `g_0`, `g_1` and so on. The same seed
    /// gives the same deals, today and with any later version.
    pub fn generate(mut self, count: usize, seed: u64) -> Self {
        self.generate = Some((count, seed));
        self
    }

    /// The key that requests must carry: 1 to 1,024 visible ASCII characters.
    pub fn service_key(mut self, key: impl Into<String>) -> Self {
        self.service_key = Some(ServiceKey::new(key));
        self
    }

    /// Reads the specification in this way, too, where it leaves something open. Of several readings, each changes what the
    /// one before has written.
    pub fn reading(mut self, reading: Reading) -> Self {
        self.config.readings.push(reading);
        self
    }

    /// The address to listen on; port 0 asks for a free one. One that is not loopback needs a key other than
    /// [`ServiceKey::DEFAULT`].
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.config.listen = address.into();
        self
    }

    /// Speaks TLS, with HTTP/1.1 and HTTP/2.
    ///
    /// ```
    /// use dealkit_server::{Sandbox, Tls};
    ///
    /// let sandbox = Sandbox::builder().tls(Tls::self_signed()).start()?;
    /// assert!(sandbox.url().starts_with("https://"));
    /// assert!(sandbox.ca_pem().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    /// # Ok::<(), dealkit_server::StartError>(())
    /// ```
    pub fn tls(mut self, tls: Tls) -> Self {
        self.config.tls = Some(tls);
        self
    }

    /// See [`Config::admin_token`]: 1 to 1,024 visible ASCII characters.
    pub fn admin_token(mut self, token: impl Into<String>) -> Self {
        self.admin_token = Some(ServiceKey::new(token));
        self
    }

    /// Gives each of these keys a world of its own, with agents, deals, faults and requests that no other key sees: keys, and
    /// prefixes that end in `*`, separated by commas, such as `test-*`. A world begins with the first request that has its
    /// key. The methods of the server are about the world of its service key.
    pub fn worlds(mut self, keys: impl Into<String>) -> Self {
        self.worlds = Some(keys.into());
        self
    }

    /// How many requests of each service key are let in. Those beyond that get a 429 with `Retry-After`, and every response
    /// has the headers `RateLimit` and `RateLimit-Policy`.
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.config.rate_limit = Some(limit);
        self
    }
}

/// With which certificate a server speaks TLS, and whether it asks its callers for one. Every file is PEM.
#[derive(Clone, Debug)]
#[must_use]
pub struct Tls {
    /// The certificate's and the private key's, unless they are made here.
    pub(crate) files: Option<(PathBuf, PathBuf)>,
    pub(crate) names: Vec<String>,
    pub(crate) ca_out: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
}

impl Tls {
    /// A certificate for localhost, 127.0.0.1, ::1 and the address that the server listens on, and its issuer, made when the
    /// server starts: see [`Sandbox::ca_pem`](crate::Sandbox::ca_pem).
    pub fn self_signed() -> Self {
        Self {
            files: None,
            names: Vec::new(),
            ca_out: None,
            client_ca: None,
        }
    }

    /// The certificate in a file, followed there by those that lead to its issuer, and its private key, without a password,
    /// in another file or the same one.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            files: Some((certificate.into(), key.into())),
            ..Self::self_signed()
        }
    }

    /// Another name or address for the self-signed certificate, such as that of a container.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Writes the certificate of a self-signed one's issuer to this file when the server starts.
    pub fn ca_out(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_out = Some(file.into());
        self
    }

    /// Refuses callers that present no certificate from one of the issuers in this file.
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(file.into());
        self
    }
}

/// The format of the access log: one line for each response, on standard error. See [`SandboxBuilder::log`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum LogFormat {
    /// `GET /v1/deals/{id} 200 0.2 ms req_1`
    #[value(help = "Lines for people")]
    Text,
    /// The same as one JSON object.
    #[value(help = "One JSON object per line")]
    Json,
    /// No log, the default of an embedded server.
    #[default]
    #[value(help = "No log")]
    Off,
}
