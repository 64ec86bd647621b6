//! TLS: whose certificates are trusted, and which one the client presents.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use rustls::{
    CertificateError::UnknownIssuer,
    ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, OtherError, RootCertStore,
    SignatureScheme,
    client::{
        ResolvesClientCert, Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{self, CryptoProvider},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_platform_verifier::Verifier;
use tokio::time::Instant;

use crate::{
    transport::connect::progress,
    value::{
        marked_text::remove_mark,
        opaque_debug,
        words::{Setting, Words, words},
    },
};

/// The TLS settings of a client, as PEM; nothing is parsed before [`TlsSettings::config`].
#[derive(Clone, PartialEq, Default)]
pub(crate) struct TlsSettings {
    /// Certificates that are trusted in addition to the system's, or instead of them.
    roots: Vec<u8>,
    pub(crate) without_system: bool,
    pub(crate) identity: Option<IdentitySource>,
}

#[derive(Clone, PartialEq)]
pub(crate) enum IdentitySource {
    /// Both, in PEM.
    Pem(Vec<u8>),
    /// The file of the certificate, and that of the key, which may be the same. They are read again.
    Files(PathBuf, PathBuf),
}

/// How long files are taken to be what they were, as that of the service key.
const FILES_KEPT: Duration = Duration::from_secs(1);

/// What the system trusts, for every client in this process.
static SYSTEM: OnceLock<Verifier> = OnceLock::new();

/// Accepts the services that the client's own certificates vouch for, and those that the system's do. The latter take tens of
/// milliseconds to load, so they are loaded when a service first shows a certificate that needs them.
#[derive(Debug)]
struct WithSystem {
    own: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the certificates that the system trusts cannot be used: {0}; install them (on Debian the package ca-certificates), or \
     let SSL_CERT_FILE name an existing file of certificates, which is then used instead of the system's"
)]
pub(super) struct NoSystem(Error);

impl WithSystem {
    fn system(&self) -> Result<&'static Verifier, Error> {
        if let Some(system) = SYSTEM.get() {
            return Ok(system);
        }
        // On the thread that makes the connection, because it happens once in a process. Nothing is locked meanwhile:
        // otherwise a process that is forked now would wait for ever.
        let loaded = load_system(Arc::clone(&self.provider))
            .map_err(|error| Error::Other(OtherError(Arc::new(NoSystem(error)))))?;
        Ok(SYSTEM.get_or_init(|| loaded))
    }
}

#[cfg(not(all(unix, not(target_vendor = "apple"), not(target_os = "android"))))]
fn load_system(provider: Arc<CryptoProvider>) -> Result<Verifier, Error> {
    Verifier::new(provider)
}

/// Loads the certificates in the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, or else the distribution's. The verifier
/// by itself takes an empty `SSL_CERT_FILE` for the name of a file, and misses the first certificate after a byte-order mark.
#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
fn load_system(provider: Arc<CryptoProvider>) -> Result<Verifier, Error> {
    let [file, folder] = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(std::env::var_os);
    let file = match file {
        Some(file) if !file.is_empty() => Some(PathBuf::from(file)),
        Some(_) if folder.is_none_or(|folder| folder.is_empty()) => {
            openssl_probe::probe().cert_file
        }
        _ => None,
    };
    let pem = file
        .and_then(|file| fs::read(file).ok())
        .unwrap_or_default();
    let roots = certificates(Setting::RootCertificates, &pem).unwrap_or_default();
    // An unreadable certificate among them is skipped, as by the verifier.
    let is_readable = |root: &CertificateDer<'_>| RootCertStore::empty().add(root.clone()).is_ok();
    Verifier::new_with_extra_roots(roots.into_iter().filter(is_readable), provider)
}

impl ServerCertVerifier for WithSystem {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_system = || {
            self.system()?
                .verify_server_cert(leaf, intermediates, name, ocsp, now)
        };
        let Some(own) = &self.own else {
            return by_system();
        };
        own.verify_server_cert(leaf, intermediates, name, ocsp, now)
            .or_else(|error| {
                by_system().map_err(|by_system| match (&error, &by_system) {
                    // The system's reason says more.
                    (Error::InvalidCertificate(UnknownIssuer), Error::InvalidCertificate(_)) => {
                        by_system
                    }
                    _ => error,
                })
            })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let supported = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let supported = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

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
        let first = source.read(provider)?;
        Ok(Self {
            source: source.clone(),
            provider: Arc::clone(provider),
            read: Mutex::new((Instant::now(), Arc::new(first))),
        })
    }

    fn current(&self) -> Arc<SingleCertAndKey> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, current) = &mut *read;
        if matches!(self.source, IdentitySource::Files(..)) && at.elapsed() >= FILES_KEPT {
            *at = Instant::now();
            // While the files are being replaced, they may be missing, or not belong to each other.
            if let Ok(new) = self.source.read(&self.provider) {
                *current = Arc::new(new);
            }
        }
        Arc::clone(current)
    }
}

opaque_debug!(Presented);

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        progress::asked_for_certificate();
        self.0.as_ref()?.current().resolve(issuers, schemes)
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

impl TlsSettings {
    pub(crate) fn add_roots(&mut self, pem: &[u8]) {
        self.roots.extend_from_slice(&remove_mark(pem));
        // The next PEM begins on a line of its own.
        self.roots.push(b'\n');
    }

    /// The configuration for making connections, with no protocol to agree on yet (ALPN).
    ///
    /// # Errors
    /// If a PEM holds no certificate or key.
    pub(crate) fn config(&self) -> Result<ClientConfig, Words> {
        let builder = ClientConfig::builder_with_provider(provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|error| Words::from(format!("TLS cannot be used: {error}")))?;
        let provider = Arc::clone(builder.crypto_provider());
        let identity = self.identity.as_ref();
        let presented = identity.map(|source| Presented::new(source, &provider));
        let certificate = ClientCertificate(presented.transpose()?);
        let store = self.roots()?;
        let builder = if self.without_system {
            builder.with_root_certificates(store)
        } else {
            let own = WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone());
            // It is an error only to have none.
            let own = own.build().ok();
            let verifier = Arc::new(WithSystem { own, provider });
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let mut config = builder.with_client_cert_resolver(Arc::new(certificate));
        if let Some(IdentitySource::Files(..)) = identity {
            // In a session that is resumed, the service would go on to see the certificate with which it began.
            config.resumption = Resumption::disabled();
        }
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, Words> {
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
        for root in roots {
            // The error may repeat a part of something that is not a certificate.
            store
                .add(root)
                .map_err(|_| words!("{} contains a certificate that cannot be read", setting))?;
        }
        Ok(store)
    }
}

impl IdentitySource {
    /// The certificate, with the intermediates up to its issuer, and its private key.
    fn read(&self, provider: &CryptoProvider) -> Result<SingleCertAndKey, Words> {
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
        let (name, certificate, key) = match self {
            Self::Pem(pem) => (Setting::Identity.into(), pem.clone(), pem.clone()),
            Self::Files(certificate, key) => {
                let [one, other] = [certificate, key].map(|path| path.display().to_string());
                let name = if one == other {
                    words!("{} {}", Setting::Identity, one)
                } else {
                    words!("{} ({}, {})", Setting::Identity, one, other)
                };
                (name, read(certificate)?, read(key)?)
            }
        };
        let contains = |what: &str| words!("{} contains {}", name.clone(), what.to_owned());
        let chain = certificates(name.clone(), &certificate)?;
        if chain.is_empty() {
            return Err(contains(
                "no certificate: it must be PEM with the certificate and its private key",
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&remove_mark(&key)).map_err(|_| {
            contains(
                "no private key that can be read: it must be PEM without a password, with the certificate and its \
                 private key",
            )
        })?;
        match CertifiedKey::from_der(chain, key, provider) {
            Ok(key) => Ok(SingleCertAndKey::from(key)),
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(contains(
                "a private key that does not belong to its first certificate",
            )),
            Err(_) => Err(contains(
                "a certificate or a private key that cannot be read or whose type is not supported",
            )),
        }
    }
}

fn certificates(name: impl Into<Words>, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Words> {
    CertificateDer::pem_slice_iter(&remove_mark(pem))
        .collect::<Result<_, pem::Error>>()
        // The error may hold a line of the file, which may be one of a private key.
        .map_err(|_| words!("{} is not complete PEM", name.into()))
}

/// The cryptography provider: the program's choice, or else the one that comes with the feature `rustls`.
fn provider() -> Result<Arc<CryptoProvider>, Words> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(Arc::clone(provider));
    }
    #[cfg(feature = "rustls")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(feature = "rustls"))]
    Err(Words::from(
        "TLS needs a provider of cryptography: call install_default() of one, such as \
         rustls::crypto::aws_lc_rs::default_provider(), before the first client is built, or turn on dealkit's feature \
         `rustls`",
    ))
}
