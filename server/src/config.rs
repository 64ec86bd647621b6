//! The settings of a server.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum, builder::RangedU64ValueParser};

use crate::{
    contract::auth::{InvalidServiceKey, ServiceKey},
    sandbox::{Reading, access::Access},
    state::seed::SeedDeal,
};

/// Makes a field of [`Config`], a flag and a method of [`SandboxBuilder`] out of each limit, with the same words.
macro_rules! limits {
    ($( $(#[doc = $about:literal])+ $name:ident: $kind:ty = $default:expr, $value:literal $(, $parser:expr)?; )+) => {
        /// What a server listens on, which key it asks for, and its limits. [`Config::default`] is what the binary does
        /// without flags.
        ///
        /// ```
        /// let mut config = dealkit_server::Config::default();
        /// config.strict = true;
        /// assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
        /// ```
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct Config {
            /// The address to listen on; port 0 asks for a free one.
            pub listen: SocketAddr,
            /// The key that requests must carry. Without one it is [`ServiceKey::DEFAULT`], and the address must be
            /// a loopback address.
            pub service_key: Option<ServiceKey>,
            /// Whether undocumented fields are violations. They are ignored otherwise.
            pub strict: bool,
            /// How the specification is read where it leaves something open.
            pub reading: Reading,
            /// Whether the interface under `/__sandbox/` exists (except `health` and `openapi.json`, which always do),
            /// and whether the headers `x-sandbox-fault` and `x-sandbox-reading` have any effect.
            pub admin: bool,
            /// The token that the interface asks for. Without one, on a loopback address, the interface is open to
            /// programs on this machine, or, where a service key was chosen, that key is the token. On any other
            /// address, nobody is let in unless there is a token.
            pub admin_token: Option<ServiceKey>,
            /// The access log on standard error.
            pub log: LogFormat,
            /// How many connections are served at once. Others wait until one of them ends.
            pub max_connections: usize,
            $( $(#[doc = $about])+ pub $name: $kind, )+
        }

        impl Default for Config {
            fn default() -> Self {
                Self {
                    listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
                    service_key: None,
                    strict: false,
                    reading: Reading::Reference,
                    admin: true,
                    admin_token: None,
                    log: LogFormat::Off,
                    max_connections: default_max_connections(),
                    $( $name: $default, )+
                }
            }
        }

        /// The flags of the limits.
        #[derive(Args)]
        #[command(next_help_heading = "Limits")]
        pub(crate) struct Limits {
            $(
                $(#[doc = $about])+
                #[arg(long, value_name = $value, default_value = <$kind as Shown>::shown(&$default))]
                $( #[arg(value_parser = $parser)] )?
                $name: $kind,
            )+
        }

        impl Limits {
            /// The settings with these limits.
            pub(crate) fn config(self) -> Config {
                Config { $( $name: self.$name, )+ ..Config::default() }
            }
        }

        impl SandboxBuilder {
            $(
                $(#[doc = $about])+
                pub fn $name(mut self, limit: $kind) -> Self {
                    self.config.$name = limit;
                    self
                }
            )+
        }
    };
}

limits! {
    /// Longest request body, in bytes.
    max_body_bytes: usize = 1_048_576, "BYTES";
    /// How much of all request bodies together is kept at once, in bytes; a request beyond that gets a 503.
    max_buffered_bytes: usize = 268_435_456, "BYTES";
    /// How many agents can be created.
    max_agents: u64 = 1_000_000, "N";
    /// How much JSON is kept, in bytes: of agents, and of deals beyond those that the server starts with.
    max_store_bytes: u64 = 1_073_741_824, "BYTES";
    /// Largest file of deals, in bytes.
    max_seed_bytes: u64 = 1_073_741_824, "BYTES";
    /// Longest request head (request line and headers), in bytes; at least 8192.
    max_head_bytes: usize = 65_536, "BYTES",
        RangedU64ValueParser::<usize>::new().range(Config::MIN_HEAD_BYTES as u64..);
    /// Time for a request head to arrive; also how long an idle connection is kept, and how long a response may
    /// stay unread.
    head_timeout: Duration = Duration::from_secs(10), "SECONDS", seconds;
    /// Time for a request body to arrive.
    body_timeout: Duration = Duration::from_secs(10), "SECONDS", seconds;
    /// Time for requests in flight to end after SIGINT or SIGTERM.
    shutdown_timeout: Duration = Duration::from_secs(5), "SECONDS", seconds;
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

/// A limit as its flag has it.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for usize {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for u64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for Duration {
    fn shown(&self) -> String {
        self.as_secs_f64().to_string()
    }
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
    pub(crate) deals: Option<Vec<SeedDeal>>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) stdin: bool,
    pub(crate) generate: Option<(usize, u64)>,
}

impl SandboxBuilder {
    /// A builder with the settings of `config`.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            service_key: None,
            admin_token: None,
            deals: None,
            files: Vec::new(),
            stdin: false,
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

    /// Seeds the deals of a file instead of the samples: a JSON array, or one deal per line. It must be a
    /// regular file of at most [`Config::max_seed_bytes`].
    pub fn deals_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Seeds the deals on standard input, read like a file.
    pub(crate) fn deals_from_stdin(mut self) -> Self {
        self.stdin = true;
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

    /// The address to listen on; port 0 asks for a free one. One that is not loopback needs a key other than
    /// [`ServiceKey::DEFAULT`].
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.config.listen = address.into();
        self
    }

    /// Whether undocumented fields are violations.
    pub fn strict(mut self, strict: bool) -> Self {
        self.config.strict = strict;
        self
    }

    /// How the specification is read where it leaves something open.
    pub fn reading(mut self, reading: Reading) -> Self {
        self.config.reading = reading;
        self
    }

    /// See [`Config::admin`].
    pub fn admin(mut self, admin: bool) -> Self {
        self.config.admin = admin;
        self
    }

    /// See [`Config::admin_token`]: 1 to 1,024 visible ASCII characters.
    pub fn admin_token(mut self, token: impl Into<String>) -> Self {
        self.admin_token = Some(ServiceKey::new(token));
        self
    }

    /// The access log on standard error: none, unless this says otherwise.
    pub fn log(mut self, format: LogFormat) -> Self {
        self.config.log = format;
        self
    }

    /// How many connections are served at once. See [`Config::max_connections`].
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.config.max_connections = connections;
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

/// 1,024, or fewer where the process may not open that many files: 32 descriptors are left for everything
/// that is not a connection.
fn default_max_connections() -> usize {
    const PREFERRED: usize = 1024;
    const RESERVED: usize = 32;
    descriptor_limit().map_or(PREFERRED, |limit| {
        limit.saturating_sub(RESERVED).clamp(1, PREFERRED)
    })
}

#[cfg(unix)]
fn descriptor_limit() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    usize::try_from(limit).ok()
}

#[cfg(not(unix))]
fn descriptor_limit() -> Option<usize> {
    None
}
