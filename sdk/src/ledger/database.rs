//! Where a PostgreSQL database is, and how to connect to it.

use std::{
    env, fmt, fs,
    hash::{Hash, Hasher},
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use percent_encoding::percent_decode_str;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::JoinHandle,
};
use tokio_postgres::{
    Client, Config, NoTls,
    config::{ChannelBinding, Host, SslMode, TargetSessionAttrs},
    tls::{self, MakeTlsConnect, TlsConnect},
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

use super::error::{Cause, LedgerError, Place, Purpose};
use crate::http::connect::tls::TlsSettings;

/// The schema that has the tables, unless the URL names another.
const SCHEMA: &str = "dealkit";

/// A database, as its URL names it.
#[derive(Clone)]
pub(super) struct Database {
    /// Has the password.
    url: Arc<str>,
    config: Config,
    pub(super) schema: String,
    /// The file of certificates that are trusted as well.
    roots: Option<String>,
    /// How long to wait for the database, and how long a job may send after it last heard from it.
    pub(super) patience: Duration,
    pub(super) lease: Duration,
}

impl Database {
    pub(super) fn parse(url: &str) -> Result<Self, LedgerError> {
        let refused = |what: &'static str| {
            let place = Place::Database("postgresql://…".into());
            LedgerError::new(place, Purpose::Read, Cause::DatabaseUrl(what))
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
                "its schema may have small letters, digits and underscores only",
            ));
        }
        // What is wrong with it is not told: a password that is not escaped is taken for something else.
        let parsed = format!("{base}?{}", rest.join("&")).parse::<Config>();
        let Ok(mut config) = parsed else {
            return Err(refused(
                "it cannot be read. Characters other than letters and digits in a user name or password must be \
                 escaped, such as %40 for @, and its parameters are schema, sslmode, sslrootcert, connect_timeout, \
                 application_name, options and those about keepalives and several hosts",
            ));
        };
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
        config.channel_binding(ChannelBinding::Disable);
        Ok(Self {
            url: url.into(),
            config,
            schema,
            roots,
            patience: Duration::from_secs(30),
            lease: Duration::from_secs(60),
        })
    }

    /// Its name, without the user and the password.
    pub(super) fn place(&self) -> Place {
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

    /// Until when a job may send what it has claimed, if it has begun then to tell the database that it is alive. Others
    /// take it for dead a while later, in which what it has sent arrives.
    pub(super) fn may_send_until(&self, begun: Instant) -> Instant {
        begun + self.lease * 2 / 3
    }

    /// Connects, on the runtime that is running.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), Cause> {
        let mut config = self.config.clone();
        // As libpq does, so that a password need not be in a URL.
        if let (None, Ok(password)) = (config.get_password(), env::var("PGPASSWORD")) {
            config.password(password);
        }
        if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config.connect(NoTls).await?;
            return Ok((client, tokio::spawn(connection.map(drop))));
        }
        let mut settings = TlsSettings::default();
        if let Some(path) = &self.roots {
            settings.add_roots(&fs::read(path)?);
        }
        let tls = settings.config(false);
        let mut tls = tls.map_err(|what| Cause::Unreachable(what.to_string()))?;
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        let tls = Tls(TlsConnector::from(Arc::new(tls)));
        let (client, connection) = config.connect(tls).await?;
        Ok((client, tokio::spawn(connection.map(drop))))
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

/// Makes connections with the same TLS as those to services.
struct Tls(TlsConnector);

/// A connection with TLS.
struct Encrypted<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, io::Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake(self.0.clone(), name))
    }
}

struct Handshake(TlsConnector, ServerName<'static>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        let Self(connector, name) = self;
        Box::pin(async move { connector.connect(name, stream).await.map(Encrypted) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> tls::TlsStream for Encrypted<S> {
    // The certificate is verified, so nothing depends on it.
    fn channel_binding(&self) -> tls::ChannelBinding {
        tls::ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
