//! TLS configuration: trusted certificates, and the client's own certificate.

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
        message::{Message, Setting},
        opaque_debug,
        text_encoding::to_utf8,
    },
};

/// The TLS settings of a client. The PEM is parsed by [`TlsSettings::build_config`].
#[derive(Clone, PartialEq, Default)]
pub(crate) struct TlsSettings {
    /// Trusted certificates (PEM), in addition to the system's or instead of them.
    roots: Vec<u8>,
    /// True if the system's certificates are not trusted.
    pub(crate) excludes_system: bool,
    pub(crate) identity: Option<IdentitySource>,
}

/// The source of the client's certificate and private key.
#[derive(Clone, PartialEq)]
pub(crate) enum IdentitySource {
    /// PEM with the certificate and the key.
    Pem(Vec<u8>),
    /// The file of the certificate and the file of the key, which may be the same. The files are read again when they may have
    /// changed.
    Files(PathBuf, PathBuf),
}

/// The time for which the content of the files is cached, the same as for a service key file.
const FILE_CACHE_TIME: Duration = Duration::from_secs(1);

/// The verifier with the system's certificates, shared by all clients in this process.
static SYSTEM_VERIFIER: OnceLock<Verifier> = OnceLock::new();

/// Verifier that trusts the certificates that were added to the client, and the system's. The system's certificates take tens
/// of milliseconds to load, so they are loaded when a service first presents a certificate that needs them.
#[derive(Debug)]
struct CombinedVerifier {
    own_verifier: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

/// The certificates that the system trusts cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the certificates that the system trusts cannot be used: {0}; install them (on Debian the package ca-certificates), or \
     let SSL_CERT_FILE name an existing file of certificates, which is then used instead of the system's; or trust certificates of your own"
)]
pub(super) struct SystemCertificatesError(Error);

impl CombinedVerifier {
    /// Returns the verifier with the system's certificates, which are loaded if necessary.
    fn system_verifier(&self) -> Result<&'static Verifier, Error> {
        if let Some(system) = SYSTEM_VERIFIER.get() {
            return Ok(system);
        }
        // Loading blocks the thread that makes the connection, but only once per process. No lock is held meanwhile: a child
        // process that is forked during the loading would deadlock on it.
        let verifier = load_system(Arc::clone(&self.provider))
            .map_err(|error| Error::Other(OtherError(Arc::new(SystemCertificatesError(error)))))?;
        Ok(SYSTEM_VERIFIER.get_or_init(|| verifier))
    }
}

#[cfg(not(all(unix, not(target_vendor = "apple"), not(target_os = "android"))))]
fn load_system(provider: Arc<CryptoProvider>) -> Result<Verifier, Error> {
    Verifier::new(provider)
}

/// Loads the certificates in the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, or else the distribution's.
///
/// This function reads the file itself, because the platform verifier treats an empty `SSL_CERT_FILE` as the name of a file, and
/// misses the first certificate after a byte-order mark.
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
    let roots = parse_certificates(&pem).unwrap_or_default();
    // An unreadable certificate is skipped, as the platform verifier does.
    let is_readable = |root: &CertificateDer<'_>| RootCertStore::empty().add(root.clone()).is_ok();
    Verifier::new_with_extra_roots(roots.into_iter().filter(is_readable), provider)
}

impl ServerCertVerifier for CombinedVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify_with_system = || {
            self.system_verifier()?
                .verify_server_cert(leaf, intermediates, name, ocsp, now)
        };
        let Some(own_verifier) = &self.own_verifier else {
            return verify_with_system();
        };
        own_verifier
            .verify_server_cert(leaf, intermediates, name, ocsp, now)
            .or_else(|error| {
                verify_with_system().map_err(|system_error| match (&error, &system_error) {
                    // The system's error is more precise.
                    (Error::InvalidCertificate(UnknownIssuer), Error::InvalidCertificate(_)) => {
                        system_error
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

/// Presents the client's certificate, if there is one, when the service asks for it, and records the service's request.
#[derive(Debug)]
struct ClientCertificateResolver(Option<CachedIdentity>);

/// The client's certificate and key, and the time when they were read.
struct CachedIdentity {
    source: IdentitySource,
    provider: Arc<CryptoProvider>,
    cached: Mutex<(Instant, Arc<SingleCertAndKey>)>,
}

impl CachedIdentity {
    fn new(source: &IdentitySource, provider: &Arc<CryptoProvider>) -> Result<Self, Message> {
        let first = source.read(provider)?;
        Ok(Self {
            source: source.clone(),
            provider: Arc::clone(provider),
            cached: Mutex::new((Instant::now(), Arc::new(first))),
        })
    }

    /// Returns the certificate and key. Reads the files again if the cache time is over.
    fn current_identity(&self) -> Arc<SingleCertAndKey> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, current) = &mut *cached;
        if matches!(self.source, IdentitySource::Files(..)) && read_at.elapsed() >= FILE_CACHE_TIME
        {
            *read_at = Instant::now();
            // While the files are being replaced, they may be missing or may not match: the cached pair stays in use.
            if let Ok(new) = self.source.read(&self.provider) {
                *current = Arc::new(new);
            }
        }
        Arc::clone(current)
    }
}

opaque_debug!(CachedIdentity);

impl ResolvesClientCert for ClientCertificateResolver {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        progress::record_certificate_request();
        self.0
            .as_ref()?
            .current_identity()
            .resolve(issuers, schemes)
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

impl TlsSettings {
    /// Adds trusted certificates (PEM).
    pub(crate) fn add_roots(&mut self, pem: &[u8]) {
        self.roots.extend_from_slice(&to_utf8(pem));
        // The next PEM must begin on a new line.
        self.roots.push(b'\n');
    }

    /// Builds the configuration of connections, without protocols to negotiate (ALPN).
    ///
    /// # Errors
    /// If a PEM holds no certificate or key.
    pub(crate) fn build_config(&self) -> Result<ClientConfig, Message> {
        let builder = ClientConfig::builder_with_provider(find_crypto_provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|error| Message::from(format!("TLS cannot be used: {error}")))?;
        let provider = Arc::clone(builder.crypto_provider());
        let identity = self.identity.as_ref();
        let cached_identity = identity.map(|source| CachedIdentity::new(source, &provider));
        let certificate = ClientCertificateResolver(cached_identity.transpose()?);
        let store = self.parse_roots()?;
        let builder = if self.excludes_system {
            builder.with_root_certificates(store)
        } else {
            let own_verifier =
                WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone());
            // The verifier fails to build only if no certificates were added, which is valid here.
            let own_verifier = own_verifier.build().ok();
            let verifier = Arc::new(CombinedVerifier {
                own_verifier,
                provider,
            });
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let mut config = builder.with_client_cert_resolver(Arc::new(certificate));
        if let Some(IdentitySource::Files(..)) = identity {
            // A resumed session keeps the client certificate of its first connection, so a replaced certificate needs new sessions.
            config.resumption = Resumption::disabled();
        }
        Ok(config)
    }

    /// Parses the trusted certificates.
    fn parse_roots(&self) -> Result<RootCertStore, Message> {
        let setting = if self.excludes_system {
            Setting::OnlyRootCertificates
        } else {
            Setting::RootCertificates
        };
        let make_message = |problem: &'static str| Message::about(setting, problem);
        let roots = parse_certificates(&self.roots).map_err(make_message)?;
        if roots.is_empty() && (self.excludes_system || !self.roots.is_empty()) {
            return Err(make_message(
                "contains no certificate: it must be PEM, which begins with -----BEGIN CERTIFICATE-----",
            ));
        }
        let mut store = RootCertStore::empty();
        for root in roots {
            // The library's error may repeat a part of the file, so it is not shown.
            store
                .add(root)
                .map_err(|_| make_message("contains a certificate that cannot be read"))?;
        }
        Ok(store)
    }
}

impl IdentitySource {
    /// Reads the certificate, any intermediate certificates, and the private key.
    fn read(&self, provider: &CryptoProvider) -> Result<SingleCertAndKey, Message> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| {
                let path = path.display();
                Message::about(Setting::Identity, format!("{path} cannot be read: {error}"))
            })
        };
        let (paths, certificate, key) = match self {
            Self::Pem(pem) => (String::new(), pem.clone(), pem.clone()),
            Self::Files(certificate, key) => {
                let [certificate_path, key_path] =
                    [certificate, key].map(|path| path.display().to_string());
                let paths = if certificate_path == key_path {
                    format!("{certificate_path} ")
                } else {
                    format!("({certificate_path}, {key_path}) ")
                };
                (paths, read(certificate)?, read(key)?)
            }
        };
        let make_message =
            |problem: &str| Message::about(Setting::Identity, format!("{paths}{problem}"));
        let chain = parse_certificates(&certificate).map_err(make_message)?;
        if chain.is_empty() {
            return Err(make_message(
                "contains no certificate: it must be PEM with the certificate and its private key",
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&to_utf8(&key)).map_err(|_| {
            make_message(
                "contains no private key that can be read: it must be PEM without a password, with the certificate and its \
                 private key",
            )
        })?;
        match CertifiedKey::from_der(chain, key, provider) {
            Ok(key) => Ok(SingleCertAndKey::from(key)),
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(make_message(
                "contains a private key that does not belong to its first certificate",
            )),
            Err(_) => Err(make_message(
                "contains a certificate or a private key that cannot be read or whose type is not supported",
            )),
        }
    }
}

/// Parses the certificates in a PEM. An error is only the problem; the caller adds the setting's name.
fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    CertificateDer::pem_slice_iter(&to_utf8(pem))
        .collect::<Result<_, pem::Error>>()
        // The library's error may contain a line of the file, even of a private key, so it is not shown.
        .map_err(|_| "is not complete PEM")
}

/// Returns the cryptography provider that the program has installed, otherwise ring if the feature `rustls` is on.
fn find_crypto_provider() -> Result<Arc<CryptoProvider>, Message> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(Arc::clone(provider));
    }
    #[cfg(feature = "rustls")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(feature = "rustls"))]
    Err(Message::from(
        "TLS needs a provider of cryptography: call install_default() of one, such as \
         rustls::crypto::aws_lc_rs::default_provider(), before the first client is built, or turn on dealkit's feature \
         `rustls`",
    ))
}
