//! TLS: whose certificates are trusted, and which one the client presents.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustls::{
    ClientConfig, ConfigBuilder, InconsistentKeys, RootCertStore, SignatureScheme, WantsVerifier,
    client::{ResolvesClientCert, Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    sign::{CertifiedKey, SingleCertAndKey},
};

use tokio::time::Instant;

use crate::{
    http::connect::progress,
    value::words::{Setting, Words, words},
};

/// Which certificates of services are trusted.
#[derive(Clone, PartialEq, Default)]
struct Trust {
    /// Certificates that are trusted in addition to the system's, or instead of them.
    roots: Vec<CertificateDer<'static>>,
    without_system: bool,
}

/// A configuration without a client certificate, for everyone in this process with the same trust.
///
/// Loading the system's certificates takes tens of milliseconds, and a session can be resumed only with the
/// configuration that holds it, so there is one of each.
struct SharedConfig {
    trust: Trust,
    config: ClientConfig,
    /// The process in which its sessions were made.
    process: u32,
}

static MADE: Mutex<Vec<SharedConfig>> = Mutex::new(Vec::new());

/// How many configurations are kept. Programs have one or two.
const MADE_KEPT: usize = 8;

/// The certificate that a client presents, with the intermediates up to its issuer, and its private key.
struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// What error texts call it.
    name: Words,
}

/// Where a client's certificate and its private key come from.
#[derive(Clone, PartialEq)]
enum IdentitySource {
    /// Both, in PEM.
    Pem(Vec<u8>),
    /// The file of the certificate, and that of the key, which may be the same. They are read again.
    Files(PathBuf, PathBuf),
}

/// How long files are taken to be what they were, as that of the service key.
const FILES_KEPT: Duration = Duration::from_secs(1);

/// Presents the client's certificate, if it has one, to a service that asks for it, and records that it was asked.
#[derive(Debug)]
struct ClientCertificate(Option<Presented>);

/// The certificate that was read last, and when.
struct Presented {
    source: IdentitySource,
    provider: Arc<CryptoProvider>,
    read: Mutex<(Instant, Arc<SingleCertAndKey>)>,
}

impl Presented {
    fn new(source: &IdentitySource, provider: &Arc<CryptoProvider>) -> Result<Self, Words> {
        let first = source.read()?.signing_with(provider)?;
        Ok(Self {
            source: source.clone(),
            provider: Arc::clone(provider),
            read: Mutex::new((Instant::now(), Arc::new(first))),
        })
    }

    /// The certificate to present now.
    fn current(&self) -> Arc<SingleCertAndKey> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, current) = &mut *read;
        if matches!(self.source, IdentitySource::Files(..)) && at.elapsed() >= FILES_KEPT {
            *at = Instant::now();
            // While the files are being replaced, they may be missing, or not belong to each other.
            if let Ok(new) = self
                .source
                .read()
                .and_then(|new| new.signing_with(&self.provider))
            {
                *current = Arc::new(new);
            }
        }
        Arc::clone(current)
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").finish_non_exhaustive()
    }
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        progress::asked_for_certificate();
        self.0.as_ref()?.current().resolve(issuers, schemes)
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// The TLS settings of a client, as PEM; nothing is parsed before [`TlsSettings::config`].
#[derive(Clone, PartialEq, Default)]
pub(crate) struct TlsSettings {
    roots: Vec<u8>,
    without_system: bool,
    identity: Option<IdentitySource>,
}

impl TlsSettings {
    /// Trusts these certificates as well.
    pub(crate) fn add_roots(&mut self, pem: &[u8]) {
        self.roots.extend_from_slice(pem);
        // The next PEM begins on a line of its own.
        self.roots.push(b'\n');
    }

    /// Trusts none of the system's certificates.
    pub(crate) fn distrust_system(&mut self) {
        self.without_system = true;
    }

    /// Presents this certificate.
    pub(crate) fn set_identity(&mut self, pem: &[u8]) {
        self.identity = Some(IdentitySource::Pem(pem.to_owned()));
    }

    /// Presents the certificate in a file, with the private key in another one.
    pub(crate) fn set_identity_files(&mut self, certificate: PathBuf, key: PathBuf) {
        self.identity = Some(IdentitySource::Files(certificate, key));
    }

    /// Whether there is a certificate to present.
    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// The configuration for connections without TLS. The settings are checked all the same.
    pub(crate) fn unused(&self) -> Result<ClientConfig, Words> {
        let config = builder()?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        self.trust()?;
        if let Some(identity) = &self.identity {
            Presented::new(identity, config.crypto_provider())?;
        }
        Ok(config)
    }

    /// The configuration for making connections.
    ///
    /// # Errors
    /// If a PEM holds no certificate or key, or the system has no certificates.
    pub(crate) fn config(&self, http2_only: bool) -> Result<ClientConfig, Words> {
        let mut config = self.trust()?.config()?;
        if let Some(identity) = &self.identity {
            let presented = Presented::new(identity, config.crypto_provider())?;
            config.client_auth_cert_resolver = Arc::new(ClientCertificate(Some(presented)));
            config.resumption = match identity {
                // rustls resumes a session only with the certificate with which it was made.
                IdentitySource::Pem(_) => Resumption::default(),
                // In a session that is resumed, the service would go on to see the certificate with which it began.
                IdentitySource::Files(..) => Resumption::disabled(),
            };
        }
        config.alpn_protocols = if http2_only {
            vec![b"h2".to_vec()]
        } else {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        };
        Ok(config)
    }

    fn trust(&self) -> Result<Trust, Words> {
        let setting = if self.without_system {
            Setting::OnlyRootCertificates
        } else {
            Setting::RootCertificates
        };
        let roots = certificates(setting, &self.roots)?;
        if roots.is_empty() && (self.without_system || !self.roots.is_empty()) {
            return Err(words!(
                "{} contains no certificate: it must be PEM, which begins with -----BEGIN CERTIFICATE-----",
                setting
            ));
        }
        let mut store = RootCertStore::empty();
        for root in &roots {
            // The error may repeat a part of something that is not a certificate.
            store
                .add(root.clone())
                .map_err(|_| words!("{} contains a certificate that cannot be read", setting))?;
        }
        Ok(Trust {
            roots,
            without_system: self.without_system,
        })
    }
}

impl IdentitySource {
    /// The setting, and the files by which the reader knows it.
    fn name(&self) -> Words {
        match self {
            Self::Pem(_) => Setting::Identity.into(),
            Self::Files(certificate, key) if certificate == key => {
                words!(
                    "{} {}",
                    Setting::Identity,
                    certificate.display().to_string()
                )
            }
            Self::Files(certificate, key) => words!(
                "{} ({}, {})",
                Setting::Identity,
                certificate.display().to_string(),
                key.display().to_string()
            ),
        }
    }

    /// Reads the certificate and the private key.
    fn read(&self) -> Result<ClientIdentity, Words> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| {
                let path = path.display().to_string();
                words!(
                    "{} {} cannot be read: {}",
                    Setting::Identity,
                    path,
                    error.to_string()
                )
            })
        };
        let (certificate, key) = match self {
            Self::Pem(pem) => (pem.clone(), pem.clone()),
            Self::Files(certificate, key) => (read(certificate)?, read(key)?),
        };
        let name = self.name();
        let chain = certificates(name.clone(), &certificate)?;
        if chain.is_empty() {
            return Err(words!(
                "{} contains no certificate: it must be PEM with the certificate and its private key",
                name
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
            words!(
                "{} contains no private key that can be read: it must be PEM without a password, with the \
                 certificate and its private key", name)
        })?;
        Ok(ClientIdentity {
            chain,
            key,
            name: self.name(),
        })
    }
}

impl ClientIdentity {
    fn signing_with(self, provider: &CryptoProvider) -> Result<SingleCertAndKey, Words> {
        use rustls::Error::{InconsistentKeys as Inconsistent, InvalidCertificate};

        match CertifiedKey::from_der(self.chain, self.key, provider) {
            Ok(key) => Ok(SingleCertAndKey::from(key)),
            Err(error) => Err(words!(
                "{} contains a {}",
                self.name,
                match error {
                    Inconsistent(InconsistentKeys::KeyMismatch) =>
                        "private key that does not belong to its first certificate",
                    InvalidCertificate(_) => "certificate that cannot be read",
                    _ => "private key that cannot be read or whose type is not supported",
                }
            )),
        }
    }
}

fn certificates(name: impl Into<Words>, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Words> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, pem::Error>>()
        // The error may hold a line of the file, which may be one of a private key.
        .map_err(|_| words!("{} is not complete PEM", name.into()))
}

impl Trust {
    fn config(self) -> Result<ClientConfig, Words> {
        if let Some(config) = self.made(&mut made()) {
            return Ok(config);
        }
        // The lock is not held meanwhile: otherwise a process forked now would find it locked for ever.
        let config = self.make_config()?;
        let mut made = made();
        if let Some(config) = self.made(&mut made) {
            return Ok(config);
        }
        if made.len() == MADE_KEPT {
            made.remove(0);
        }
        made.push(SharedConfig {
            trust: self,
            config: config.clone(),
            process: process::id(),
        });
        Ok(config)
    }

    fn made(&self, made: &mut [SharedConfig]) -> Option<ClientConfig> {
        let made = made.iter_mut().find(|made| made.trust == *self)?;
        let process = process::id();
        if made.process != process {
            // After a fork the certificates are still good. The sessions have a lock, though, which a thread
            // of the parent may have held.
            made.process = process;
            made.config.resumption = Resumption::default();
        }
        Some(made.config.clone())
    }

    fn make_config(&self) -> Result<ClientConfig, Words> {
        let builder = builder()?;
        let verifier = self.verifier(Arc::clone(builder.crypto_provider()))?;
        Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(ClientCertificate(None))))
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Words> {
        if self.without_system {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(self.roots.iter().cloned());
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
            return match verifier.build() {
                Ok(verifier) => Ok(verifier),
                Err(error) => Err(words!(
                    "{} cannot be used: {}",
                    Setting::OnlyRootCertificates,
                    error.to_string()
                )),
            };
        }
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(
            self.roots.iter().cloned(),
            provider,
        )
        .map_err(|error| {
            words!(
                "the certificates that the system trusts cannot be used: {}; install them (on Debian the \
                 package ca-certificates), let SSL_CERT_FILE name an existing file of certificates, which is \
                 then used instead of the system's, or set {}", error.to_string(), Setting::RootCertificates)
        })?;
        Ok(Arc::new(verifier))
    }
}

fn made() -> MutexGuard<'static, Vec<SharedConfig>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Words> {
    ClientConfig::builder_with_provider(provider()?)
        .with_safe_default_protocol_versions()
        .map_err(|error| Words::from(format!("TLS cannot be used: {error}")))
}

/// The cryptography provider: the program's choice, or else the one that comes with the feature `rustls`.
fn provider() -> Result<Arc<CryptoProvider>, Words> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(Arc::clone(provider));
    }
    #[cfg(feature = "rustls")]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(feature = "rustls"))]
    Err(Words::from(
        "https needs a provider of cryptography: call install_default() of one, such as \
         rustls::crypto::ring::default_provider(), before the first client is built, or turn on dealkit's feature \
         `rustls`",
    ))
}
