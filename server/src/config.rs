//! The settings of a server: each is stated once, as a field, a flag and a method of [`SandboxBuilder`].

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU16,
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Command, FromArgMatches, ValueEnum, builder::BoolishValueParser};

use dealkit::text_encoding::to_utf8;

use crate::{sandbox::Reading, state::seed::SeedDeal};

/// Makes a field, a flag and a method out of each setting, with the same words: what it is, how the flag is read, the field,
/// and what the method takes and makes of it.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        #[arg($($flag:tt)*)]
        $setting:ident: $field:ty, $given:ty => $set:expr;
    )+) => {
        /// Configures and starts a [`Sandbox`](crate::Sandbox), with every setting of the program.
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
        #[derive(Args, Clone)]
        #[must_use = "a builder does nothing until `start` is called"]
        pub struct SandboxBuilder {
            $(
                $(#[doc = $about])+
                #[arg(long, $($flag)*)]
                pub(crate) $setting: $field,
            )+
            /// File with the service key, such as a mounted secret; white space around the key is ignored
            #[arg(long, value_name = "FILE", conflicts_with = "service_key", value_parser = text_in)]
            pub(crate) service_key_file: Option<String>,
            /// File with the token, as for --service-key-file
            #[arg(long, value_name = "FILE", conflicts_with = "admin_token", value_parser = text_in)]
            pub(crate) admin_token_file: Option<String>,
            /// Turn off the control interface under /__sandbox/ (except health, openapi.json and ca.pem), and the
            /// headers x-sandbox-fault and x-sandbox-reading
            #[arg(long, value_parser = BoolishValueParser::new())]
            pub(crate) no_admin: bool,
            #[arg(skip)]
            pub(crate) seeds: Option<Vec<SeedDeal>>,
            /// File of deals to serve instead of the samples: a JSON array, or one deal per line
            #[arg(long = "deals", value_name = "FILE")]
            pub(crate) files: Vec<PathBuf>,
            /// Serve N generated deals (a million at most), g_0, g_1 and so on, instead of the samples
            #[arg(long, value_name = "N")]
            pub(crate) generate: Option<usize>,
            /// Seed of the generated deals: the same seed gives the same deals
            #[arg(long, value_name = "S", requires = "generate", default_value_t = 0)]
            pub(crate) seed: u64,
            /// How to read the specification where it is open; several readings, separated by commas, apply one after
            /// another [default: reference]
            #[arg(long = "reading", value_name = "NAME", value_enum, value_delimiter = ',')]
            pub(crate) readings: Vec<Reading>,
            #[command(flatten, next_help_heading = "TLS")]
            pub(crate) tls: Tls,
        }

        impl SandboxBuilder {
            /// With the defaults of the flags, but on a free loopback port and without a log.
            pub(crate) fn new() -> Self {
                let flags = Self::augment_args(Command::new("")).no_binary_name(true);
                let none = flags.try_get_matches_from([""; 0]);
                let defaults = none.and_then(|none| Self::from_arg_matches(&none));
                Self {
                    listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                    log: LogFormat::Off,
                    ..defaults.expect("every flag is optional")
                }
            }

            $(
                $(#[doc = $about])+
                pub fn $setting(mut self, $setting: $given) -> Self {
                    self.$setting = $set;
                    self
                }
            )+
        }
    };
}

settings! {
    /// Address and port to listen on, such as 127.0.0.1:8080 or localhost:8080; port 0 picks a free port
    ///
    /// An address that other machines can reach needs a key other than sandbox-key.
    #[arg(global = true, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr, impl Into<SocketAddr> => listen.into();
    /// Key that requests must have in x-service-key: 1 to 1,024 visible ASCII characters [default: sandbox-key]
    ///
    /// If other machines can reach the address, choose another key. Other users of this machine can see flags, but not
    /// environment variables.
    #[arg(value_name = "KEY")]
    service_key: Option<String>, impl Into<String> => Some(service_key.into());
    /// Keys that have worlds of their own, such as test-*: see the README [default: none]
    ///
    /// Keys, and prefixes that end in *, separated by commas. Each such key has its own agents, deals, faults and
    /// requests, so that concurrent tests can share this server. A world begins with the first request that has its
    /// key.
    #[arg(value_name = "KEYS")]
    worlds: Option<String>, impl Into<String> => Some(worlds.into());
    /// Token that the control interface under /__sandbox/ requires in x-sandbox-token: 1 to 1,024 visible ASCII
    /// characters
    ///
    /// Without one, it is open on a loopback address, or requires the service key if you chose one; elsewhere it is
    /// closed. Other users of this machine can see flags, but not environment variables.
    #[arg(value_name = "TOKEN")]
    admin_token: Option<String>, impl Into<String> => Some(admin_token.into());
    /// Reject undocumented fields, to catch typos
    #[arg(value_parser = BoolishValueParser::new())]
    strict: bool, bool => strict;
    /// Format of the access log on standard error, which has a line for each response of /v1
    #[arg(value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat, LogFormat => log;
    /// Requests to accept from each service key per second; the rest get a 429
    ///
    /// It has Retry-After, and every response has the headers RateLimit and RateLimit-Policy. At most 65,535; by default
    /// there is no limit.
    #[arg(value_name = "N")]
    rate_limit: Option<NonZeroU16>, u16 => NonZeroU16::new(rate_limit);
    /// Connections served at once; others wait, as they do if the process may open no more files.
    #[arg(value_name = "N", default_value_t = 1_024, help_heading = "Limits")]
    max_connections: usize, usize => max_connections;
    /// Longest request body, in bytes.
    #[arg(value_name = "BYTES", default_value_t = 1_048_576, help_heading = "Limits")]
    max_body_bytes: usize, usize => max_body_bytes;
    /// How much of all request and response bodies together is kept at once, in bytes; a request beyond that gets a 503.
    #[arg(value_name = "BYTES", default_value_t = 268_435_456, help_heading = "Limits")]
    max_buffered_bytes: usize, usize => max_buffered_bytes;
    /// How many agents can be created.
    #[arg(value_name = "N", default_value_t = 1_000_000, help_heading = "Limits")]
    max_agents: u64, u64 => max_agents;
    /// How much JSON is kept, in bytes: of agents, and of deals beyond those that the server starts with; with worlds, in
    /// all of them together.
    #[arg(value_name = "BYTES", default_value_t = 1_073_741_824, help_heading = "Limits")]
    max_store_bytes: u64, u64 => max_store_bytes;
    /// How many worlds there can be, besides that of the service key.
    #[arg(value_name = "N", default_value_t = 1_000, help_heading = "Limits")]
    max_worlds: usize, usize => max_worlds;
    /// Longest request head (request line and headers), in bytes.
    #[arg(value_name = "BYTES", default_value_t = 65_536, help_heading = "Limits")]
    max_head_bytes: usize, usize => max_head_bytes;
    /// Time for a request head to arrive; also how long an idle connection is kept, and how long a response may
    /// stay unread.
    #[arg(value_name = "SECONDS", default_value = "10", value_parser = seconds, help_heading = "Limits")]
    head_timeout: Duration, Duration => head_timeout;
    /// Time for a request body to arrive.
    #[arg(value_name = "SECONDS", default_value = "10", value_parser = seconds, help_heading = "Limits")]
    body_timeout: Duration, Duration => body_timeout;
    /// Time for requests in flight to end after SIGINT or SIGTERM.
    #[arg(value_name = "SECONDS", default_value = "5", value_parser = seconds, help_heading = "Limits")]
    shutdown_timeout: Duration, Duration => shutdown_timeout;
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

/// The key or the token in a file.
fn text_in(file: &str) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(to_utf8(&bytes).into_owned());
    let text = text.map_err(|_| "is not UTF-8 text".to_owned())?;
    Ok(text.trim().to_owned())
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without keys.
        f.debug_struct("SandboxBuilder").finish_non_exhaustive()
    }
}

impl SandboxBuilder {
    /// Whether the interface under `/__sandbox/` exists (except `health`, `openapi.json` and `ca.pem`, which
    /// always do), and whether the headers `x-sandbox-fault` and `x-sandbox-reading` have any effect.
    pub fn admin(mut self, admin: bool) -> Self {
        self.no_admin = !admin;
        self
    }

    /// Seeds deals instead of the samples: texts, `serde_json::Value`s or `dealkit::Deal`s. Texts are served
    /// byte for byte. No deals at all is a choice too: `deals::<SeedDeal>([])`.
    pub fn deals<D: Into<SeedDeal>>(mut self, deals: impl IntoIterator<Item = D>) -> Self {
        self.seeds
            .get_or_insert_default()
            .extend(deals.into_iter().map(Into::into));
        self
    }

    /// Serves the deals in a file instead of the samples: a JSON array, or one deal per line.
    pub fn deals_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Seeds `count` generated deals instead of the samples, a million at most: `g_0`, `g_1` and so on. The same seed
    /// gives the same deals, today and with any later version.
    pub fn generate(mut self, count: usize, seed: u64) -> Self {
        (self.generate, self.seed) = (Some(count), seed);
        self
    }

    /// Adds a way to read the specification where it is open. Several readings apply one after another.
    pub fn reading(mut self, reading: Reading) -> Self {
        self.readings.push(reading);
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
        self.tls = tls;
        self
    }
}

/// The certificate with which a server speaks TLS, and whether its clients need one. Every file is PEM.
#[derive(Args, Clone, Debug, Default)]
#[must_use]
pub struct Tls {
    /// Speak TLS, with HTTP/1.1 and HTTP/2: with the certificate and private key in these files (PEM, unencrypted), or
    /// self-signed
    ///
    /// The self-signed certificate is for localhost, 127.0.0.1, ::1 and the address of --listen. Its CA is created with
    /// it, and the CA's certificate is at /__sandbox/ca.pem. In the environment, separate the two files with a comma;
    /// one file can have both.
    #[arg(long, value_name = "CERT KEY", num_args = 1..=2, value_delimiter = ',')]
    pub(crate) tls: Vec<PathBuf>,
    /// Another host name or address for the self-signed certificate, such as a container's
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) tls_name: Vec<String>,
    /// Write the CA certificate of the self-signed one to this file, for clients to trust
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca_out: Option<PathBuf>,
    /// Reject clients without a certificate from one of the CAs in this file (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

impl Tls {
    /// A certificate for localhost, 127.0.0.1, ::1 and the address that the server listens on, and its issuer, made when the
    /// server starts: see [`Sandbox::ca_pem`](crate::Sandbox::ca_pem).
    pub fn self_signed() -> Self {
        Self {
            tls: vec!["self-signed".into()],
            ..Self::default()
        }
    }

    /// The certificate in a file, followed there by those that lead to its issuer, and its private key, without a password,
    /// in another file or the same one.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            tls: vec![certificate.into(), key.into()],
            ..Self::default()
        }
    }

    /// Another name or address for the self-signed certificate, such as that of a container.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.tls_name.push(name.into());
        self
    }

    /// Writes the certificate of a self-signed one's issuer to this file when the server starts.
    pub fn ca_out(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls_ca_out = Some(file.into());
        self
    }

    /// Refuses callers that present no certificate from one of the issuers in this file.
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls_client_ca = Some(file.into());
        self
    }
}

/// The format of the access log: see [`SandboxBuilder::log`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum LogFormat {
    /// `GET /v1/deals/{id} 200 0.2 ms req_1`
    Text,
    /// The same as one JSON object.
    Json,
    /// No log, the default of an embedded server.
    #[default]
    Off,
}
