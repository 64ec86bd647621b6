//! The settings of a server: each is stated once, as a field, a flag and a method of [`SandboxBuilder`].

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum, builder::BoolishValueParser};

use crate::{
    sandbox::{RateLimit, Reading},
    state::seed::SeedDeal,
};

/// Makes a field, a flag and a method out of each setting, with the same words.
macro_rules! settings {
    (
        texts: $( $(#[doc = $about_text:literal])+ $text:ident $unit_of_text:literal; )+
        limits: $( $(#[doc = $about_limit:literal])+ $limit:ident: $number:ty = $most:expr, $unit:literal; )+
        seconds: $( $(#[doc = $about_time:literal])+ $time:ident = $seconds:literal; )+
    ) => {
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
        #[derive(Args, Clone)]
        #[must_use = "a builder does nothing until `start` is called"]
        pub struct SandboxBuilder {
            /// Address and port to listen on, such as 127.0.0.1:8080 or localhost:8080; port 0 asks for a free one
            #[arg(long, global = true, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
            pub(crate) listen: SocketAddr,
            $(
                $(#[doc = $about_text])+
                #[arg(long, value_name = $unit_of_text)]
                pub(crate) $text: Option<String>,
            )+
            /// File that holds the service key, such as a secret that a container mounts; white space around the key is ignored
            #[arg(long, value_name = "FILE", conflicts_with = "service_key", value_parser = text_in)]
            pub(crate) service_key_file: Option<String>,
            /// File that holds the token, as for --service-key-file
            #[arg(long, value_name = "FILE", conflicts_with = "admin_token", value_parser = text_in)]
            pub(crate) admin_token_file: Option<String>,
            /// Turn off the interface under /__sandbox/ (except health, openapi.json and ca.pem), and the headers
            /// x-sandbox-fault and x-sandbox-reading
            #[arg(long, value_parser = BoolishValueParser::new())]
            pub(crate) no_admin: bool,
            #[arg(skip)]
            pub(crate) seeds: Option<Vec<SeedDeal>>,
            /// File of deals to serve instead of the samples, - for standard input: a JSON array, or one deal per line
            #[arg(long = "deals", value_name = "FILE")]
            pub(crate) files: Vec<PathBuf>,
            /// Serve N generated deals (a million at most), g_0, g_1 and so on, instead of the samples
            #[arg(long, value_name = "N")]
            pub(crate) generate: Option<usize>,
            /// Seed of the generated deals: the same seed gives the same deals
            #[arg(long, value_name = "S", requires = "generate", default_value_t = 0)]
            pub(crate) seed: u64,
            /// Refuse undocumented fields, to catch typing mistakes
            #[arg(long, value_parser = BoolishValueParser::new())]
            pub(crate) strict: bool,
            /// How to read the specification where it leaves something open: reference, ok, forbidden, bad-request, sparse,
            /// nulls, extra, numbers, times, chunked, errors-text, errors-html, errors-empty or errors-foreign; of several,
            /// separated by commas, each changes what the one before has written [default: reference]
            #[arg(long = "reading", value_name = "NAME", value_delimiter = ',')]
            pub(crate) readings: Vec<Reading>,
            /// Format of the access log on standard error
            #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
            pub(crate) log: LogFormat,
            /// Requests of each service key in a second or a minute, such as 50/s or 600/m; those beyond that get a 429
            #[arg(long, value_name = "N/s")]
            pub(crate) rate_limit: Option<RateLimit>,
            $(
                $(#[doc = $about_limit])+
                #[arg(long, value_name = $unit, default_value_t = $most, help_heading = "Limits")]
                pub(crate) $limit: $number,
            )+
            $(
                $(#[doc = $about_time])+
                #[arg(long, value_name = "SECONDS", default_value = stringify!($seconds), help_heading = "Limits")]
                #[arg(value_parser = seconds)]
                pub(crate) $time: Duration,
            )+
            #[command(flatten, next_help_heading = "TLS")]
            pub(crate) tls: Tls,
        }

        impl SandboxBuilder {
            /// On a free loopback port, without a log.
            pub(crate) fn new() -> Self {
                Self {
                    listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                    $( $text: None, )+
                    service_key_file: None,
                    admin_token_file: None,
                    no_admin: false,
                    seeds: None,
                    files: Vec::new(),
                    generate: None,
                    seed: 0,
                    strict: false,
                    readings: Vec::new(),
                    log: LogFormat::Off,
                    rate_limit: None,
                    $( $limit: $most, )+
                    $( $time: Duration::from_secs($seconds), )+
                    tls: Tls::default(),
                }
            }

            $(
                $(#[doc = $about_text])+
                pub fn $text(mut self, $text: impl Into<String>) -> Self {
                    self.$text = Some($text.into());
                    self
                }
            )+
            $(
                $(#[doc = $about_limit])+
                pub fn $limit(mut self, $limit: $number) -> Self {
                    self.$limit = $limit;
                    self
                }
            )+
            $(
                $(#[doc = $about_time])+
                pub fn $time(mut self, $time: Duration) -> Self {
                    self.$time = $time;
                    self
                }
            )+
        }
    };
}

settings! {
    texts:
    /// Key that requests must carry in x-service-key: 1 to 1,024 visible ASCII characters [default: sandbox-key]
    ///
    /// An address that other machines can reach needs a key other than that. Other users of this machine can
    /// see flags, but not environment variables.
    service_key "KEY";
    /// Keys that have a world of their own, such as test-*: see the README [default: none]
    ///
    /// Keys, and prefixes that end in *, separated by commas. Each such key has its own agents, deals, faults and
    /// requests, so that tests which run at the same time can share this server. A world begins with the first request
    /// that has its key.
    worlds "KEYS";
    /// Token that the interface under /__sandbox/ asks for in x-sandbox-token: 1 to 1,024 visible ASCII characters
    ///
    /// Without one, it is open on a loopback address, or asks for the service key if one was chosen; elsewhere it is
    /// closed. Other users of this machine can see flags, but not environment variables.
    admin_token "TOKEN";

    limits:
    /// Connections served at once; others wait, as they do while the process may open no more files.
    max_connections: usize = 1_024, "N";
    /// Longest request body, in bytes.
    max_body_bytes: usize = 1_048_576, "BYTES";
    /// How much of all request bodies together is kept at once, in bytes; a request beyond that gets a 503.
    max_buffered_bytes: usize = 268_435_456, "BYTES";
    /// How many agents can be created.
    max_agents: u64 = 1_000_000, "N";
    /// How much JSON is kept, in bytes: of agents, and of deals beyond those that the server starts with; with worlds, in
    /// all of them together.
    max_store_bytes: u64 = 1_073_741_824, "BYTES";
    /// How many worlds there are at once, beside that of the service key.
    max_worlds: usize = 1_000, "N";
    /// Longest request head (request line and headers), in bytes; at least 8192.
    max_head_bytes: usize = 65_536, "BYTES";

    seconds:
    /// Time for a request head to arrive; also how long an idle connection is kept, and how long a response may
    /// stay unread.
    head_timeout = 10;
    /// Time for a request body to arrive.
    body_timeout = 10;
    /// Time for requests in flight to end after SIGINT or SIGTERM.
    shutdown_timeout = 5;
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
    let text = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(text.trim().to_owned())
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without keys.
        f.debug_struct("SandboxBuilder").finish_non_exhaustive()
    }
}

impl SandboxBuilder {
    /// The address to listen on; port 0 asks for a free one. One that is not loopback needs a key other than
    /// [`ServiceKey::DEFAULT`](crate::ServiceKey::DEFAULT).
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.listen = address.into();
        self
    }

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

    /// Seeds the deals of a file instead of the samples: a JSON array, or one deal per line. `-` is standard
    /// input.
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

    /// Refuses undocumented fields, to catch typing mistakes.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Reads the specification in this way, too, where it leaves something open. Of several readings, each changes what the
    /// one before has written.
    pub fn reading(mut self, reading: Reading) -> Self {
        self.readings.push(reading);
        self
    }

    /// The format of the access log: one line for each response, on standard error.
    pub fn log(mut self, log: LogFormat) -> Self {
        self.log = log;
        self
    }

    /// How many requests of each service key are let in. Those beyond that get a 429 with `Retry-After`, and every response
    /// has the headers `RateLimit` and `RateLimit-Policy`.
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.rate_limit = Some(limit);
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

/// With which certificate a server speaks TLS, and whether it asks its callers for one. Every file is PEM.
#[derive(Args, Clone, Debug, Default)]
#[must_use]
pub struct Tls {
    /// Speak TLS, with HTTP/1.1 and HTTP/2: with the certificate and the private key in these files, in PEM and without a
    /// password, or with self-signed in place of them
    ///
    /// The self-signed certificate is for localhost, 127.0.0.1, ::1 and the address of --listen. Its issuer is made with it,
    /// and has its own certificate at /__sandbox/ca.pem. In the environment, a comma separates the two files; one file can
    /// have both.
    #[arg(id = "tls", long = "tls", value_name = "CERT KEY", num_args = 1..=2, value_delimiter = ',')]
    pub(crate) files: Vec<PathBuf>,
    /// Another host name or address that the self-signed certificate is for, such as that of a container
    #[arg(
        id = "tls_name",
        long = "tls-name",
        value_name = "NAME",
        requires = "tls",
        value_delimiter = ','
    )]
    pub(crate) names: Vec<String>,
    /// Write the certificate of the self-signed one's issuer to this file, for callers that are to trust it
    #[arg(
        id = "tls_ca_out",
        long = "tls-ca-out",
        value_name = "FILE",
        requires = "tls"
    )]
    pub(crate) ca_out: Option<PathBuf>,
    /// Refuse callers without a certificate from one of the issuers in this file, in PEM
    #[arg(
        id = "tls_client_ca",
        long = "tls-client-ca",
        value_name = "FILE",
        requires = "tls"
    )]
    pub(crate) client_ca: Option<PathBuf>,
}

impl Tls {
    /// A certificate for localhost, 127.0.0.1, ::1 and the address that the server listens on, and its issuer, made when the
    /// server starts: see [`Sandbox::ca_pem`](crate::Sandbox::ca_pem).
    pub fn self_signed() -> Self {
        Self {
            files: vec!["self-signed".into()],
            ..Self::default()
        }
    }

    /// The certificate in a file, followed there by those that lead to its issuer, and its private key, without a password,
    /// in another file or the same one.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            files: vec![certificate.into(), key.into()],
            ..Self::default()
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

/// The format of the access log: see [`SandboxBuilder::log`].
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
