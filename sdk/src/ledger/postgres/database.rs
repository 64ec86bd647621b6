//! URL of a PostgreSQL database, and connections to it.

use std::{
    fmt, fs,
    hash::{Hash, Hasher},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use percent_encoding::percent_decode_str;
use tokio::task::JoinHandle;
use tokio_postgres::{
    Client, Config, NoTls,
    config::{Host, SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::error::{Cause, HIDDEN_URL, LedgerError, LedgerLocation};
use crate::transport::{connect::tls::TlsSettings, environment::read_variable};

/// The default schema of a ledger's tables.
const SCHEMA: &str = "dealkit";

const UNREADABLE_URL: &str = "it cannot be read. Characters other than letters and digits in a user name or password must be \
    escaped, such as %40 for @, and its parameters are schema, sslmode, sslrootcert, connect_timeout, \
    application_name, options and those about keepalives and several hosts";

/// A database, parsed from its URL.
#[derive(Clone)]
pub(in crate::ledger) struct Database {
    url: Arc<str>,
    config: Config,
    pub(super) schema: String,
    /// The file of further CA certificates to trust.
    ca_file: Option<String>,
}

impl Database {
    pub(in crate::ledger) fn parse(url: &str) -> Result<Self, LedgerError> {
        let reject_url = |fault: &'static str| {
            let location = LedgerLocation::Database(HIDDEN_URL.into());
            LedgerError::new(location, Cause::InvalidDatabaseUrl(fault))
        };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut ca_file, mut ssl_mode) = (SCHEMA.to_owned(), None, None);
        let mut other_parameters = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match name {
                "schema" => schema = value.into_owned(),
                "sslrootcert" => ca_file = Some(value.into_owned()),
                "sslmode" => ssl_mode = Some(value.into_owned()),
                _ => other_parameters.push(part),
            }
        }
        let is_schema_character =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || schema.len() > 63 || !schema.chars().all(is_schema_character) {
            return Err(reject_url(
                "its schema may contain only lowercase letters, digits and underscores",
            ));
        }
        // The parser would take an unescaped `@` or `/` in a password for the end of the password or of the host.
        let after_scheme = base.split_once("://").map_or("", |(_, rest)| rest);
        if after_scheme.matches('@').count() > 1 {
            return Err(reject_url(UNREADABLE_URL));
        }
        // The parser's message is not shown: it may repeat a part of an unescaped password.
        let parse_result = format!("{base}?{}", other_parameters.join("&")).parse::<Config>();
        let Ok(mut config) = parse_result else {
            return Err(reject_url(UNREADABLE_URL));
        };
        // An unescaped password may have been parsed as a part of a host or of the database's name.
        let is_plain = |name: &str| !name.contains(['@', ':']);
        let hosts_are_plain = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => !name.contains('@'),
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        if !hosts_are_plain || !config.get_dbname().is_none_or(is_plain) {
            return Err(reject_url(UNREADABLE_URL));
        }
        config.ssl_mode(match ssl_mode.as_deref() {
            Some("disable") => SslMode::Disable,
            // Certificates are always verified.
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            None if config.get_hosts().iter().all(is_local) => SslMode::Disable,
            None => SslMode::Require,
            Some(_) => {
                return Err(reject_url(
                    "its sslmode must be verify-full, or disable for a connection without TLS",
                ));
            }
        });
        let is_empty = |host: &Host| matches!(host, Host::Tcp(name) if name.is_empty());
        if config.get_hosts().is_empty() || config.get_hosts().iter().any(is_empty) {
            return Err(reject_url("it names no host"));
        }
        if config.get_application_name().is_none() {
            config.application_name("dealkit");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // Without these limits, a wait on a broken connection could last for hours.
        config.tcp_user_timeout(Duration::from_secs(30));
        config.keepalives_idle(Duration::from_secs(15));
        // A standby server may lack the latest commits.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self {
            url: url.into(),
            config,
            schema,
            ca_file,
        })
    }

    /// Returns the URL as messages show it, without the user and the password.
    pub(in crate::ledger) fn location(&self) -> LedgerLocation {
        let mut hosts = String::new();
        let ports = self.config.get_ports();
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            let comma = if index == 0 { "" } else { "," };
            hosts += &match host {
                Host::Tcp(host) => format!("{comma}{host}:{port}"),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{comma}{}:{port}", folder.display()),
            };
        }
        let mut name = format!(
            "postgresql://{hosts}/{}",
            self.config.get_dbname().unwrap_or_default()
        );
        if self.schema != SCHEMA {
            name += &format!("?schema={}", self.schema);
        }
        LedgerLocation::Database(name.into())
    }

    /// Connects to the database, and starts the task of the connection on the current runtime.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), Cause> {
        let mut config = self.config.clone();
        // This variable, which libpq also reads, keeps the password out of the URL.
        if let (None, Ok(Some(password))) = (config.get_password(), read_variable("PGPASSWORD")) {
            config.password(password);
        }
        if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config
                .connect(NoTls)
                .await
                .map_err(classify_connect_error)?;
            check_encoding(connection.parameter("server_encoding"))?;
            return Ok((client, tokio::spawn(connection.map(drop))));
        }
        let mut settings = TlsSettings::default();
        if let Some(path) = &self.ca_file {
            settings.add_roots(&fs::read(path)?);
        }
        let tls = settings.build_config();
        let mut tls = tls.map_err(|message| Cause::Unreachable(message.to_string()))?;
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        let connect_result = config.connect(MakeRustlsConnect::new(tls)).await;
        let (client, connection) = connect_result.map_err(classify_connect_error)?;
        check_encoding(connection.parameter("server_encoding"))?;
        Ok((client, tokio::spawn(connection.map(drop))))
    }
}

/// Converts an error of connecting. An unknown error of the server, while connecting, means that the server denies access, and
/// not that the ledger is damaged.
fn classify_connect_error(error: tokio_postgres::Error) -> Cause {
    match Cause::from(error) {
        Cause::Broken(message) => Cause::Denied(message),
        cause => cause,
    }
}

/// Rejects a database whose encoding cannot store every string: the identifier of a created agent might not be recordable.
fn check_encoding(encoding: Option<&str>) -> Result<(), Cause> {
    match encoding {
        None | Some("UTF8" | "SQL_ASCII") => Ok(()),
        Some(_) => Err(Cause::Unsupported(
            "the database cannot store every identifier, because its encoding is not UTF8; name a database that was created with \
             the encoding UTF8",
        )),
    }
}

/// Returns whether connections to this host stay on this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.location())
    }
}

impl PartialEq for Database {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for Database {}

impl Hash for Database {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.url.hash(state);
    }
}
