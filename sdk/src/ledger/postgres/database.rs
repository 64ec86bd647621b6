//! Where a PostgreSQL database is, and how to connect to it.

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

use super::super::error::{Cause, HIDDEN_URL, LedgerError, Place};
use crate::transport::{connect::tls::TlsSettings, environment::read_variable};

/// The schema that has the tables, unless the URL names another.
const SCHEMA: &str = "dealkit";

const UNREADABLE: &str = "it cannot be read. Characters other than letters and digits in a user name or password must be \
    escaped, such as %40 for @, and its parameters are schema, sslmode, sslrootcert, connect_timeout, \
    application_name, options and those about keepalives and several hosts";

/// A database, as its URL names it.
#[derive(Clone)]
pub(in crate::ledger) struct Database {
    url: Arc<str>,
    config: Config,
    pub(super) schema: String,
    /// The file of certificates that are trusted as well.
    roots: Option<String>,
}

impl Database {
    pub(in crate::ledger) fn parse(url: &str) -> Result<Self, LedgerError> {
        let refused = |what: &'static str| {
            let place = Place::Database(HIDDEN_URL.into());
            LedgerError::new(place, Cause::DatabaseUrl(what))
        };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut roots, mut mode) = (SCHEMA.to_owned(), None, None);
        let mut rest = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match name {
                "schema" => schema = value.into_owned(),
                "sslrootcert" => roots = Some(value.into_owned()),
                "sslmode" => mode = Some(value.into_owned()),
                _ => rest.push(part),
            }
        }
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || schema.len() > 63 || !schema.chars().all(is_name) {
            return Err(refused(
                "its schema may contain only lowercase letters, digits and underscores",
            ));
        }
        // An unescaped `@` or `/` in a password would be taken for the end of the user or of the host.
        let after_scheme = base.split_once("://").map_or("", |(_, rest)| rest);
        if after_scheme.matches('@').count() > 1 {
            return Err(refused(UNREADABLE));
        }
        // What is wrong with it is not told: a password that is not escaped is taken for something else.
        let parsed = format!("{base}?{}", rest.join("&")).parse::<Config>();
        let Ok(mut config) = parsed else {
            return Err(refused(UNREADABLE));
        };
        let is_plain = |text: &str| !text.contains(['@', ':']);
        let hosts_are_plain = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => !name.contains('@'),
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        if !hosts_are_plain || !config.get_dbname().is_none_or(is_plain) {
            return Err(refused(UNREADABLE));
        }
        config.ssl_mode(match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            // Certificates are always verified.
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            None if config.get_hosts().iter().all(is_local) => SslMode::Disable,
            None => SslMode::Require,
            Some(_) => {
                return Err(refused(
                    "its sslmode must be verify-full, or disable for a connection without TLS",
                ));
            }
        });
        let is_empty = |host: &Host| matches!(host, Host::Tcp(name) if name.is_empty());
        if config.get_hosts().is_empty() || config.get_hosts().iter().any(is_empty) {
            return Err(refused("it names no host"));
        }
        if config.get_application_name().is_none() {
            config.application_name("dealkit");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // After this time without an answer a connection is lost, so that nothing waits for ever.
        config.tcp_user_timeout(Duration::from_secs(30));
        config.keepalives_idle(Duration::from_secs(15));
        // A standby that follows does not have the latest.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self {
            url: url.into(),
            config,
            schema,
            roots,
        })
    }

    /// Its name, without the user and the password.
    pub(in crate::ledger) fn place(&self) -> Place {
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
        Place::Database(name.into())
    }

    /// Connects, on the runtime that is running.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), Cause> {
        let mut config = self.config.clone();
        // As libpq does, so that a password need not be in a URL.
        if let (None, Ok(Some(password))) = (config.get_password(), read_variable("PGPASSWORD")) {
            config.password(password);
        }
        if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config.connect(NoTls).await.map_err(connect_failure)?;
            check_encoding(connection.parameter("server_encoding"))?;
            return Ok((client, tokio::spawn(connection.map(drop))));
        }
        let mut settings = TlsSettings::default();
        if let Some(path) = &self.roots {
            settings.add_roots(&fs::read(path)?);
        }
        let tls = settings.build_config();
        let mut tls = tls.map_err(|what| Cause::Unreachable(what.to_string()))?;
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        let connected = config.connect(MakeRustlsConnect::new(tls)).await;
        let (client, connection) = connected.map_err(connect_failure)?;
        check_encoding(connection.parameter("server_encoding"))?;
        Ok((client, tokio::spawn(connection.map(drop))))
    }
}

/// The failure to connect: the response of the server says nothing about the ledger.
fn connect_failure(error: tokio_postgres::Error) -> Cause {
    match Cause::from(error) {
        Cause::Broken(text) => Cause::Denied(text),
        cause => cause,
    }
}

/// Rejects a database that cannot store every text. Its first failure would be the identifier of an agent that exists.
fn check_encoding(encoding: Option<&str>) -> Result<(), Cause> {
    match encoding {
        None | Some("UTF8" | "SQL_ASCII") => Ok(()),
        Some(_) => Err(Cause::Unsupported(
            "the database cannot store every identifier, because its encoding is not UTF8; name a database that was created with \
             the encoding UTF8",
        )),
    }
}

/// Whether connections to it stay on this machine.
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
        write!(f, "Database({})", self.place())
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
