//! TLS: whose certificates are trusted, and which one the client shows.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

use crate::error::Error;

/// Which certificates of services are trusted.
#[derive(Clone, PartialEq, Default)]
struct Trust {
    /// Certificates that are trusted beside the system's, or in their place.
    roots: Vec<CertificateDer<'static>>,
    without_system: bool,
}

/// Loading the system's certificates takes tens of milliseconds, so each verifier is made once in a process.
static VERIFIERS: Mutex<Vec<(Trust, Arc<dyn ServerCertVerifier>)>> = Mutex::new(Vec::new());

/// How many verifiers are kept. Programs have one or two.
const VERIFIERS_KEPT: usize = 8;

/// The certificate that a client shows, with those that lead to its issuer, and its private key.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// What a client asks of TLS, as PEM; nothing is read before [`Settings::config`].
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Settings {
    roots: Vec<u8>,
    without_system: bool,
    identity: Option<Vec<u8>>,
}

impl Settings {
    /// Trusts these certificates as well.
    pub(crate) fn add_roots(&mut self, pem: &[u8]) {
        self.roots.extend_from_slice(pem);
        // The next PEM begins on a line of its own.
        self.roots.push(b'\n');
    }

    /// Trusts none of the system's certificates.
    pub(crate) fn leave_system_out(&mut self) {
        self.without_system = true;
    }

    /// Shows this certificate.
    pub(crate) fn set_identity(&mut self, pem: &[u8]) {
        self.identity = Some(pem.to_owned());
    }

    /// The configuration that connections are made with.
    ///
    /// # Errors
    /// When a PEM holds no certificate or key, or the system has no certificates.
    pub(crate) fn config(&self, http2_only: bool) -> Result<ClientConfig, Error> {
        let builder = builder()?;
        let verifier = self.trust()?.verifier(builder.crypto_provider())?;
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.identity()? {
            Some(Identity { chain, key }) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| cannot_be_used("identity", &error))?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = if http2_only {
            vec![b"h2".to_vec()]
        } else {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        };
        Ok(config)
    }

    fn trust(&self) -> Result<Trust, Error> {
        let roots = certificates("root_certificates", &self.roots)?;
        if roots.is_empty() && (self.without_system || !self.roots.is_empty()) {
            return Err(Error::config(
                "root_certificates holds no certificate: it takes PEM, which begins with -----BEGIN CERTIFICATE-----",
            ));
        }
        Ok(Trust {
            roots,
            without_system: self.without_system,
        })
    }

    fn identity(&self) -> Result<Option<Identity>, Error> {
        let Some(pem) = &self.identity else {
            return Ok(None);
        };
        let chain = certificates("identity", pem)?;
        if chain.is_empty() {
            return Err(Error::config(
                "identity holds no certificate: it takes PEM, the certificate as well as its private key",
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
            Error::config(
                "identity holds no private key that can be read: it takes PEM without a password, the certificate \
                 as well as its private key",
            )
        })?;
        Ok(Some(Identity { chain, key }))
    }
}

fn certificates(setting: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, pem::Error>>()
        // The error may hold a line of the file, which may be one of a private key.
        .map_err(|_| Error::config(format!("{setting} is not whole PEM")))
}

impl Trust {
    fn verifier(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let mut made = VERIFIERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, verifier)) = made.iter().find(|(trust, _)| *trust == self) {
            return Ok(Arc::clone(verifier));
        }
        let verifier = self.make_verifier(Arc::clone(provider))?;
        if made.len() == VERIFIERS_KEPT {
            made.remove(0);
        }
        made.push((self, Arc::clone(&verifier)));
        Ok(verifier)
    }

    fn make_verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let mut roots = RootCertStore::empty();
        for root in &self.roots {
            roots
                .add(root.clone())
                .map_err(|error| cannot_be_used("root_certificates", &error))?;
        }
        if self.without_system {
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
            return match verifier.build() {
                Ok(verifier) => Ok(verifier),
                Err(error) => Err(cannot_be_used("root_certificates", &error)),
            };
        }
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(
            self.roots.iter().cloned(),
            provider,
        )
        .map_err(|error| {
            Error::config(format!(
                "the certificates that the system trusts cannot be used: {error}; install them (on Debian the \
                 package ca-certificates), name a file of them in SSL_CERT_FILE, or set only_root_certificates"
            ))
        })?;
        Ok(Arc::new(verifier))
    }
}

/// For connections without TLS.
pub(crate) fn trusting_nobody() -> Result<ClientConfig, Error> {
    let builder = builder()?.with_root_certificates(RootCertStore::empty());
    Ok(builder.with_no_client_auth())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider()?)
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot_be_used("TLS", &error))
}

/// What computes: the program's choice, or else the one that comes with the feature `rustls`.
fn provider() -> Result<Arc<CryptoProvider>, Error> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(Arc::clone(provider));
    }
    #[cfg(feature = "rustls")]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(feature = "rustls"))]
    Err(Error::config(
        "https needs a provider of cryptography: call install_default() of one, such as \
         rustls::crypto::ring::default_provider(), before the first client is built, or turn on dealkit's feature \
         `rustls`",
    ))
}

fn cannot_be_used(setting: &str, error: &dyn std::error::Error) -> Error {
    Error::config(format!("{setting} cannot be used: {error}"))
}
