//! The command line: from flags and environment variables to a running server, until a signal ends it.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{
    Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::BoolishValueParser, parser::ValueSource,
};
use tokio::{runtime, sync::oneshot};

use crate::{
    config::{Config, LogFormat, SandboxBuilder, Tls},
    contract::auth::ServiceKey,
    health,
    sandbox::{Reading, world::Change},
    server::{Sandbox, StartError},
};

/// The exit code when a flag, a setting or a seed is wrong.
const USAGE_ERROR: u8 = 2;

/// A local server of the Agent and Deal interface, to develop and test against.
///
/// Without flags it is ready to use: it listens on http://127.0.0.1:8080, takes the service key
/// "sandbox-key", and has three sample deals: d_1, d_2 and d_3. It keeps everything in memory.
#[derive(Parser)]
#[command(
    name = "dealkit-server",
    version,
    next_line_help = true,
    disable_help_subcommand = true,
    hide_possible_values = false,
    after_help = "Try it:\n  \
        dealkit-server\n  \
        curl -H 'x-service-key: sandbox-key' http://127.0.0.1:8080/v1/deals/d_1\n\n\
        In a browser, http://127.0.0.1:8080/__sandbox/docs tries both operations and shows what was sent.\n\n\
        Fixed limits: 128 requests in flight on an HTTP/2 connection, 128 levels of JSON; of a refused body, up to\n\
        8 MiB are read and discarded.\n\n\
        Every flag can also be set as an environment variable, shown in [env: …]; a flag wins."
)]
struct Arguments {
    #[command(flatten)]
    config: Config,

    /// Key that requests must carry in x-service-key: 1 to 1,024 visible ASCII characters [default: sandbox-key]
    ///
    /// An address that other machines can reach needs a key other than that. Other users of this machine can
    /// see flags, but not environment variables.
    #[arg(long, value_name = "KEY")]
    service_key: Option<OsString>,

    /// File that holds the service key, such as a secret that a container mounts; white space around the key is ignored
    #[arg(long, value_name = "FILE", conflicts_with = "service_key", value_parser = key_in)]
    service_key_file: Option<ServiceKey>,
    /// Keys that have a world of their own, such as test-*: see the README [default: none]
    ///
    /// Keys, and prefixes that end in *, separated by commas. Each such key has its own agents, deals, faults and
    /// requests, so that tests which run at the same time can share this server.
    #[arg(long, value_name = "KEYS")]
    worlds: Option<OsString>,

    /// File of deals to serve instead of the samples, - for standard input: a JSON array, or one deal per line
    #[arg(long, value_name = "FILE")]
    deals: Option<PathBuf>,

    /// Serve N generated deals (a million at most), g_0, g_1 and so on, instead of the samples
    #[arg(long, value_name = "N")]
    generate: Option<usize>,

    /// Seed of the generated deals: the same seed gives the same deals [default: 0]
    #[arg(long, value_name = "S", requires = "generate")]
    seed: Option<u64>,

    /// File of "dealkit check --contract --profile-out FILE" about a service: this server behaves as that one does
    ///
    /// It is TOML, with reading = "NAME,NAME" and strict = true or false. A flag or a variable wins.
    #[arg(long, value_name = "FILE", value_parser = profile)]
    profile: Option<(Option<Vec<Reading>>, Option<bool>)>,

    /// Turn off the interface under /__sandbox/ (except health, openapi.json and ca.pem), and the headers
    /// x-sandbox-fault and x-sandbox-reading
    #[arg(long, value_parser = BoolishValueParser::new())]
    no_admin: bool,

    /// Token that the interface under /__sandbox/ asks for in x-sandbox-token: 1 to 1,024 visible ASCII characters
    ///
    /// Without one, it is open on a loopback address, or asks for the service key if one was chosen; elsewhere it is
    /// closed. Other users of this machine can see flags, but not environment variables.
    #[arg(long, value_name = "TOKEN")]
    admin_token: Option<OsString>,

    /// File that holds that token, as for --service-key-file
    #[arg(long, value_name = "FILE", conflicts_with = "admin_token", value_parser = key_in)]
    admin_token_file: Option<ServiceKey>,

    /// Speak TLS, with HTTP/1.1 and HTTP/2: with the certificate and the private key in these files, in PEM and without a
    /// password, or with self-signed in place of them
    ///
    /// The self-signed certificate is for localhost, 127.0.0.1, ::1 and the address of --listen. Its issuer is made with it,
    /// and has its own certificate at /__sandbox/ca.pem. In the environment, a comma separates the two files; one file can
    /// have both.
    #[arg(long, value_name = "CERT KEY", num_args = 1..=2, value_delimiter = ',', help_heading = "TLS")]
    tls: Vec<PathBuf>,

    /// Another host name or address that the self-signed certificate is for, such as that of a container
    #[arg(
        long,
        value_name = "NAME",
        requires = "tls",
        value_delimiter = ',',
        help_heading = "TLS"
    )]
    tls_name: Vec<String>,

    /// Write the certificate of the self-signed one's issuer to this file, for callers that are to trust it
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "TLS")]
    tls_ca_out: Option<PathBuf>,

    /// Refuse callers without a certificate from one of the issuers in this file, in PEM
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "TLS")]
    tls_client_ca: Option<PathBuf>,

    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Clone, Copy, Subcommand)]
enum Task {
    /// Ask the server that listens on the address of --listen or DEALKIT_SERVER_LISTEN whether it is up: exit code 0 or 1
    Health,
}

/// Runs the command with `arguments`, the command's own name first, until a signal ends it.
///
/// The address goes to standard output as the first line, everything else to standard error. The exit code
/// is 0 after SIGINT or SIGTERM, 2 when a flag, a setting or a seed is wrong, and 1 when the server cannot
/// listen.
///
/// `health` as the only argument asks a running server instead whether it is up, with exit code 0 or 1.
pub fn run<A>(arguments: impl IntoIterator<Item = A>) -> ExitCode
where
    A: Into<OsString> + Clone,
{
    let command = Arguments::command().mut_args(with_variable);
    let matches = command.try_get_matches_from(arguments);
    let arguments =
        matches.and_then(|given| Ok(Arguments::from_arg_matches(&given)?.with_profile(&given)));
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are "errors" too, with exit code 0 and standard output.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE_ERROR));
        }
    };
    if let Some(Task::Health) = arguments.task {
        return match health::check(arguments.config.listen) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                let _ = writeln!(io::stderr(), "error: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let hint = arguments.hint();
    match arguments.builder().start() {
        Ok(sandbox) => serve(sandbox, &hint),
        Err(error) => fail(&error),
    }
}

/// A flag that is also an environment variable: `--max-agents` is `DEALKIT_SERVER_MAX_AGENTS`.
fn with_variable(flag: Arg) -> Arg {
    let Some(name) = flag.get_long() else {
        return flag;
    };
    let name = name.replace('-', "_").to_uppercase();
    flag.env(format!("DEALKIT_SERVER_{name}"))
        .hide_env_values(true)
}

/// The key or the token in a file.
fn key_in(file: &str) -> Result<ServiceKey, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    ServiceKey::new(text.trim())
        .map_err(|_| "must hold 1 to 1,024 visible ASCII characters, without spaces".to_owned())
}

/// The readings in a profile, and whether it is strict. There are no keys in it, so that it can be shown to others.
fn profile(file: &str) -> Result<(Option<Vec<Reading>>, Option<bool>), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    // The library's text would repeat what it found, which may be a key in the wrong place.
    let profile: Change = toml::from_str(&text).map_err(|_| {
        "expected reading = \"NAME,NAME\", and strict = true or false, in TOML".to_owned()
    })?;
    Ok((profile.readings()?, profile.strict))
}

impl Arguments {
    /// With what the profile says of settings that were not given.
    fn with_profile(mut self, given: &ArgMatches) -> Self {
        let is_free = |name| {
            matches!(
                given.value_source(name),
                None | Some(ValueSource::DefaultValue)
            )
        };
        let (readings, strict) = self.profile.take().unwrap_or_default();
        let config = &mut self.config;
        if let Some(readings) = readings.filter(|_| is_free("readings")) {
            config.readings = readings;
        }
        if let Some(strict) = strict.filter(|_| is_free("strict")) {
            config.strict = strict;
        }
        self
    }

    fn builder(mut self) -> SandboxBuilder {
        self.config.service_key = self.service_key_file;
        self.config.admin_token = self.admin_token_file;
        let mut builder = SandboxBuilder::new(self.config).admin(!self.no_admin);
        if let Some(key) = self.service_key {
            // A key that is not UTF-8 is not visible ASCII either: it is refused like any other invalid key.
            builder = builder.service_key(key.to_string_lossy());
        }
        if let Some(token) = self.admin_token {
            builder = builder.admin_token(token.to_string_lossy());
        }
        if let Some(keys) = self.worlds {
            builder = builder.worlds(keys.to_string_lossy());
        }
        if let [certificate, rest @ ..] = &self.tls[..] {
            let tls = if *certificate == *"self-signed" && rest.is_empty() {
                Tls::self_signed()
            } else {
                Tls::files(certificate, rest.first().unwrap_or(certificate))
            };
            builder = builder.tls(Tls {
                names: self.tls_name,
                ca_out: self.tls_ca_out,
                client_ca: self.tls_client_ca,
                ..tls
            });
        }
        if let Some(file) = self.deals {
            builder = builder.deals_file(file);
        }
        if let Some(count) = self.generate {
            builder = builder.generate(count, self.seed.unwrap_or_default());
        }
        builder
    }

    /// Something to try first, at `URL`, if the key is not a secret.
    fn hint(&self) -> String {
        let is_plain =
            self.service_key.is_none() && self.service_key_file.is_none() && self.deals.is_none();
        if !is_plain || self.generate == Some(0) || self.config.log != LogFormat::Text {
            return String::new();
        }
        let deal = self.generate.map_or("d_1", |_| "g_0");
        let key = ServiceKey::DEFAULT;
        let trusting = match (&self.tls_ca_out, &self.tls[..]) {
            (Some(file), _) => format!("--cacert '{}' ", file.display()),
            (None, [tls]) if *tls == *"self-signed" => "--insecure ".to_owned(),
            _ => String::new(),
        };
        let mut hint =
            format!("try: curl {trusting}-H 'x-service-key: {key}' URL/v1/deals/{deal}\n");
        if !self.no_admin {
            hint += "or open URL/__sandbox/docs\n";
        }
        hint
    }
}

fn serve(sandbox: Sandbox, hint: &str) -> ExitCode {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&StartError::System(error)),
    };
    runtime.block_on(async {
        // Set up before the first line is out: its reader may send a signal at once.
        let mut next_signal = match signals() {
            Ok(signals) => signals,
            Err(error) => return fail(&StartError::System(error)),
        };
        // Standard output may be closed; the server is useful all the same.
        let mut stdout = io::stdout();
        let _ = writeln!(stdout, "dealkit-server listening on {}", sandbox.url());
        let _ = stdout.flush();
        let _ = io::stderr().write_all(hint.replace("URL", &sandbox.url()).as_bytes());
        next_signal().await;

        let (stopped, has_stopped) = oneshot::channel();
        let stopping = std::thread::spawn(move || {
            sandbox.shutdown();
            let _ = stopped.send(());
        });
        tokio::select! {
            _ = has_stopped => { let _ = stopping.join(); }
            // A second signal: do not wait for the requests in flight.
            () = next_signal() => {}
        }
        ExitCode::SUCCESS
    })
}

fn fail(error: &StartError) -> ExitCode {
    let hint = match error {
        StartError::KeyRequired { .. } => {
            " (DEALKIT_SERVER_SERVICE_KEY, or --service-key-file or DEALKIT_SERVER_SERVICE_KEY_FILE for a file)"
        }
        StartError::ServiceKey(_) => " (from --service-key or DEALKIT_SERVER_SERVICE_KEY)",
        StartError::TokenRequired { .. } => {
            " (DEALKIT_SERVER_ADMIN_TOKEN, or --admin-token-file or DEALKIT_SERVER_ADMIN_TOKEN_FILE for a file)"
        }
        StartError::Worlds(_) => " (from --worlds or DEALKIT_SERVER_WORLDS)",
        StartError::AdminToken => " (from --admin-token or DEALKIT_SERVER_ADMIN_TOKEN)",
        StartError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            " (choose another port with --listen 127.0.0.1:PORT; port 0 asks for a free one)"
        }
        _ => "",
    };
    let _ = writeln!(io::stderr(), "error: {error}{hint}");
    match error {
        StartError::Listen { .. } | StartError::System(_) => ExitCode::FAILURE,
        _ => ExitCode::from(USAGE_ERROR),
    }
}

/// What waits for the next SIGINT (Ctrl-C) or SIGTERM; on Windows, for Ctrl-C. From now on, none of them ends the process.
#[cfg(unix)]
fn signals() -> io::Result<impl AsyncFnMut()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn signals() -> io::Result<impl AsyncFnMut()> {
    Ok(async || drop(tokio::signal::ctrl_c().await))
}
