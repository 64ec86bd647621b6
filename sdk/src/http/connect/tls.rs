//! TLS: whose certificates are trusted, and which one the client presents.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustls::{
    ClientConfig, InconsistentKeys, RootCertStore, SignatureScheme,
    client::{ResolvesClientCert, Resumption, danger::ServerCertVerifier},
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

/// The TLS settings of a client, as PEM; nothing is parsed before [`TlsSettings::config`].
#[derive(Clone, PartialEq, Default)]
pub(crate) struct TlsSettings {
    /// Certificates that are trusted in addition to the system's, or instead of them.
    roots: Vec<u8>,
    pub(crate) without_system: bool,
    pub(crate) identity: Option<IdentitySource>,
}

/// Where a client's certificate and its private key come from.
#[derive(Clone, PartialEq)]
pub(crate) enum IdentitySource {
    /// Both, in PEM.
    Pem(Vec<u8>),
    /// The file of the certificate, and that of the key, which may be the same. They are read again.
    Files(PathBuf, PathBuf),
}

/// How long files are taken to be what they were, as that of the service key.
const FILES_KEPT: Duration = Duration::from_secs(1);

type Roots = Vec<CertificateDer<'static>>;

/// What verifies services with the system's certificates and these more, for every client in this process: loading the
/// system's takes tens of milliseconds.
static VERIFIERS: Mutex<Vec<(Roots, Arc<dyn ServerCertVerifier>)>> = Mutex::new(Vec::new());

/// How many of them are kept. Programs have one or two.
const VERIFIERS_KEPT: usize = 8;

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

    /// The certificate to present now.
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

impl TlsSettings {
    /// Trusts these certificates as well.
    pub(crate) fn add_roots(&mut self, pem: &[u8]) {
        self.roots.extend_from_slice(pem);
        // The next PEM begins on a line of its own.
        self.roots.push(b'\n');
    }

    /// The configuration for making connections. If they never use TLS, none of the system's certificates are loaded: that
    /// takes time, and fails in a container that has none. The settings are checked all the same.
    ///
    /// # Errors
    /// If a PEM holds no certificate or key, or the system has no certificates.
    pub(crate) fn config(&self, is_used: bool, http2_only: bool) -> Result<ClientConfig, Words> {
        let builder = ClientConfig::builder_with_provider(provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|error| Words::from(format!("TLS cannot be used: {error}")))?;
        let provider = Arc::clone(builder.crypto_provider());
        let identity = self.identity.as_ref();
        let presented = identity.map(|source| Presented::new(source, &provider));
        let certificate = ClientCertificate(presented.transpose()?);
        let (roots, store) = self.roots()?;
        let builder = if is_used && !self.without_system {
            let verifier = with_system(roots, provider)?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        } else {
            builder.with_root_certificates(store)
        };
        let mut config = builder.with_client_cert_resolver(Arc::new(certificate));
        if let Some(IdentitySource::Files(..)) = identity {
            // In a session that is resumed, the service would go on to see the certificate with which it began.
            config.resumption = Resumption::disabled();
        }
        config.alpn_protocols = if http2_only {
            vec![b"h2".to_vec()]
        } else {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        };
        Ok(config)
    }

    fn roots(&self) -> Result<(Roots, RootCertStore), Words> {
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
        Ok((roots, store))
    }
}

impl IdentitySource {
    /// The certificate, with the intermediates up to its issuer, and its private key.
    fn read(&self, provider: &CryptoProvider) -> Result<SingleCertAndKey, Words> {
        use rustls::Error::{InconsistentKeys as Inconsistent, InvalidCertificate};

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
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
            contains(
                "no private key that can be read: it must be PEM without a password, with the certificate and its \
                 private key",
            )
        })?;
        match CertifiedKey::from_der(chain, key, provider) {
            Ok(key) => Ok(SingleCertAndKey::from(key)),
            Err(Inconsistent(InconsistentKeys::KeyMismatch)) => Err(contains(
                "a private key that does not belong to its first certificate",
            )),
            Err(InvalidCertificate(_)) => Err(contains("a certificate that cannot be read")),
            Err(_) => Err(contains(
                "a private key that cannot be read or whose type is not supported",
            )),
        }
    }
}

fn certificates(name: impl Into<Words>, pem: &[u8]) -> Result<Roots, Words> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, pem::Error>>()
        // The error may hold a line of the file, which may be one of a private key.
        .map_err(|_| words!("{} is not complete PEM", name.into()))
}

/// What verifies services with the system's certificates and these more.
fn with_system(
    roots: Roots,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Words> {
    let kept = || VERIFIERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, verifier)) = kept().iter().find(|(of, _)| *of == roots) {
        return Ok(Arc::clone(verifier));
    }
    // The lock is not held meanwhile: otherwise a process forked now would find it locked for ever.
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(roots.iter().cloned(), provider)
            .map_err(|error| {
                words!(
                    "the certificates that the system trusts cannot be used: {}; install them (on Debian the \
                 package ca-certificates), let SSL_CERT_FILE name an existing file of certificates, which is \
                 then used instead of the system's, or set {}", error.to_string(), Setting::RootCertificates)
            })?;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(verifier);
    let mut kept = kept();
    if kept.len() == VERIFIERS_KEPT {
        kept.remove(0);
    }
    kept.push((roots, Arc::clone(&verifier)));
    Ok(verifier)
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
        "https needs a provider of cryptography: call install_default() of one, such as \
         rustls::crypto::aws_lc_rs::default_provider(), before the first client is built, or turn on dealkit's feature \
         `rustls`",
    ))
}
