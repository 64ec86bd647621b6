//! The settings of a server. Each is defined once, for its field, flag and method of [`SandboxBuilder`].

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU16,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args, Command, FromArgMatches, ValueEnum, builder::BoolishValueParser};

use dealkit::text_encoding::to_utf8;

use crate::{sandbox::Variant, state::seed::SeedDeal};

/// Defines a field, a flag and a builder method for each setting. A row contains the documentation, the flag's attributes, the
/// field, and the method's parameter type and conversion.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        #[arg($($flag:tt)*)]
        $setting:ident: $field:ty, $parameter:ty => $value:expr;
    )+) => {
        /// Configures and starts a [`Sandbox`](crate::Sandbox). It has all settings of the command.
        ///
        /// ```
        /// use std::time::Duration;
        /// use dealkit_server::{LogFormat, Variant, Sandbox};
        ///
        /// let sandbox = Sandbox::builder()
        ///     .generate(100, 7)
        ///     .variant(Variant::Sparse)
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
            #[arg(long, value_name = "FILE", conflicts_with = "service_key", value_parser = read_secret)]
            pub(crate) service_key_file: Option<String>,
            /// File with the token, as for --service-key-file
            #[arg(long, value_name = "FILE", conflicts_with = "admin_token", value_parser = read_secret)]
            pub(crate) admin_token_file: Option<String>,
            /// Turn off the control interface under /__sandbox/ (except health, openapi.json and ca.pem), and the
            /// headers x-sandbox-fault and x-sandbox-variant
            #[arg(long, value_parser = BoolishValueParser::new())]
            pub(crate) no_admin: bool,
            #[arg(skip)]
            pub(crate) initial_deals: Option<Vec<SeedDeal>>,
            /// File of deals to serve instead of the samples: a JSON array, or one deal per line
            #[arg(long = "deals", value_name = "FILE")]
            pub(crate) deal_files: Vec<PathBuf>,
            /// Serve N generated deals (a million at most), g_0, g_1 and so on, instead of the samples
            #[arg(long, value_name = "N", value_parser = parse_count::<usize>)]
            pub(crate) generate: Option<usize>,
            /// Seed of the generated deals: the same seed gives the same deals
            #[arg(long, value_name = "S", requires = "generate", default_value_t = 0, value_parser = parse_count::<u64>)]
            pub(crate) seed: u64,
            /// How to read the specification where it is open; several variants, separated by commas, apply one after
            /// another [default: reference]
            #[arg(long = "variant", value_name = "NAME", value_enum, value_delimiter = ',')]
            pub(crate) variants: Vec<Variant>,
            #[command(flatten, next_help_heading = "TLS")]
            pub(crate) tls: Tls,
        }

        impl SandboxBuilder {
            /// Creates a builder with the defaults of the flags, except for a free loopback port and no log.
            pub(crate) fn new() -> Self {
                let flags = Self::augment_args(Command::new("")).no_binary_name(true);
                let matches = flags.try_get_matches_from([""; 0]);
                let defaults = matches.and_then(|matches| Self::from_arg_matches(&matches));
                Self {
                    listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                    log: LogFormat::Off,
                    ..defaults.expect("every flag is optional")
                }
            }

            $(
                $(#[doc = $about])+
                pub fn $setting(mut self, $setting: $parameter) -> Self {
                    self.$setting = $value;
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
    #[arg(global = true, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = parse_address)]
    listen: SocketAddr, impl Into<SocketAddr> => listen.into();
    /// Key that requests must have in x-service-key: 1 to 1,024 visible ASCII characters [default: sandbox-key]
    ///
    /// If other machines can reach the address, choose another key. Other users of this machine can see flags, but not
    /// environment variables.
    #[arg(value_name = "KEY")]
    service_key: Option<String>, impl Into<String> => Some(service_key.into());
    /// Keys that have namespaces of their own, such as test-*: see the README [default: none]
    ///
    /// Keys, and prefixes that end in *, separated by commas. Each such key has its own agents, deals, faults and
    /// requests, so that concurrent tests can share this server. A namespace begins with the first request that has its
    /// key.
    #[arg(value_name = "KEYS")]
    namespaces: Option<String>, impl Into<String> => Some(namespaces.into());
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
    #[arg(value_name = "N", value_parser = parse_rate)]
    rate_limit: Option<NonZeroU16>, u16 => NonZeroU16::new(rate_limit);
    /// Connections served at once; others wait, as they do if the process may open no more files.
    #[arg(value_name = "N", default_value_t = 1_024, value_parser = parse_count::<usize>, help_heading = "Limits")]
    max_connections: usize, usize => max_connections;
    /// Longest request body, in bytes.
    #[arg(value_name = "BYTES", default_value_t = 1_048_576, value_parser = parse_count::<usize>, help_heading = "Limits")]
    max_body_bytes: usize, usize => max_body_bytes;
    /// How much of all request and response bodies together is kept at once, in bytes; a request beyond that gets a 503.
    #[arg(value_name = "BYTES", default_value_t = 268_435_456, value_parser = parse_count::<usize>, help_heading = "Limits")]
    max_buffered_bytes: usize, usize => max_buffered_bytes;
    /// How many agents can be created.
    #[arg(value_name = "N", default_value_t = 1_000_000, value_parser = parse_count::<u64>, help_heading = "Limits")]
    max_agents: u64, u64 => max_agents;
    /// How much JSON is kept, in bytes: of agents, and of deals beyond those that the server starts with; with namespaces, in
    /// all of them together.
    #[arg(value_name = "BYTES", default_value_t = 1_073_741_824, value_parser = parse_count::<u64>, help_heading = "Limits")]
    max_store_bytes: u64, u64 => max_store_bytes;
    /// How many namespaces there can be, besides the service key's.
    #[arg(value_name = "N", default_value_t = 1_000, value_parser = parse_count::<usize>, help_heading = "Limits")]
    max_namespaces: usize, usize => max_namespaces;
    /// Longest request head (request line and headers), in bytes.
    #[arg(value_name = "BYTES", default_value_t = 65_536, value_parser = parse_count::<usize>, help_heading = "Limits")]
    max_head_bytes: usize, usize => max_head_bytes;
    /// Time for a request head to arrive; also how long an idle connection is kept, and how long a response may
    /// stay unread.
    #[arg(value_name = "SECONDS", default_value = "10", value_parser = parse_seconds, help_heading = "Limits")]
    head_timeout: Duration, Duration => head_timeout;
    /// Time for a request body to arrive.
    #[arg(value_name = "SECONDS", default_value = "10", value_parser = parse_seconds, help_heading = "Limits")]
    body_timeout: Duration, Duration => body_timeout;
    /// Time for requests in flight to end after SIGINT or SIGTERM.
    #[arg(value_name = "SECONDS", default_value = "5", value_parser = parse_seconds, help_heading = "Limits")]
    shutdown_timeout: Duration, Duration => shutdown_timeout;
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let numeric_address = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    numeric_address
        .parse()
        .map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:8080".to_owned())
}

fn parse_count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "expected a whole number, 0 or more".to_owned())
}

fn parse_rate(text: &str) -> Result<NonZeroU16, String> {
    text.parse()
        .map_err(|_| "expected a whole number from 1 to 65535".to_owned())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let valid_seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.001..=86_400.0).contains(seconds));
    valid_seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.001 to 86400".to_owned())
}

/// Reads a key or token from a file.
fn read_secret(file: &str) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(to_utf8(&bytes).into_owned());
    let text = text.map_err(|_| "is not UTF-8 text".to_owned())?;
    Ok(text.trim().to_owned())
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings contain secrets: the service key and the token.
        f.debug_struct("SandboxBuilder").finish_non_exhaustive()
    }
}

impl SandboxBuilder {
    /// Turns the control interface under `/__sandbox/` on or off (except `health`, `openapi.json` and `ca.pem`, which are always
    /// available), and the headers `x-sandbox-fault` and `x-sandbox-variant`.
    pub fn admin(mut self, admin: bool) -> Self {
        self.no_admin = !admin;
        self
    }

    /// Serves these deals instead of the samples: JSON strings, `serde_json::Value`s or `dealkit::Deal`s. JSON strings are served
    /// byte for byte. For a server without deals, use `deals::<SeedDeal>([])`.
    pub fn deals<D: Into<SeedDeal>>(mut self, deals: impl IntoIterator<Item = D>) -> Self {
        self.initial_deals
            .get_or_insert_default()
            .extend(deals.into_iter().map(Into::into));
        self
    }

    /// Serves the deals in a file instead of the samples: a JSON array, or one deal per line.
    pub fn deals_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.deal_files.push(path.into());
        self
    }

    /// Serves `count` generated deals instead of the samples, at most a million: `g_0`, `g_1` and so on. The same seed gives the
    /// same deals, also in later versions.
    pub fn generate(mut self, count: usize, seed: u64) -> Self {
        (self.generate, self.seed) = (Some(count), seed);
        self
    }

    /// Adds a variant. Several variants apply one after another.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variants.push(variant);
        self
    }

    /// Turns on TLS, with HTTP/1.1 and HTTP/2.
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

/// The TLS settings of a server: its certificate, and the CAs of client certificates. All files are PEM.
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
    /// Creates a CA and a certificate for localhost, 127.0.0.1, ::1 and the server's address when the server starts. Clients need
    /// the CA certificate: see [`Sandbox::ca_pem`](crate::Sandbox::ca_pem).
    pub fn self_signed() -> Self {
        Self {
            tls: vec!["self-signed".into()],
            ..Self::default()
        }
    }

    /// Uses the certificate chain in a file, and its unencrypted private key in another file or the same one.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            tls: vec![certificate.into(), key.into()],
            ..Self::default()
        }
    }

    /// Adds a host name or address, such as a container's, to the self-signed certificate.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.tls_name.push(name.into());
        self
    }

    /// Writes the CA certificate of the self-signed certificate to this file when the server starts.
    pub fn ca_out(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls_ca_out = Some(file.into());
        self
    }

    /// Rejects clients without a certificate from one of the CAs in this file.
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
    /// The same fields as a JSON object.
    Json,
    /// No log, the default of an embedded server.
    #[default]
    Off,
}
