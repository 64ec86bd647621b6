//! TLS: the certificate that a server shows, and the issuer of those that it asks for.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Datelike as _, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _,
    },
    server::WebPkiClientVerifier,
};

use crate::config::Tls;

/// The response to a request that is not encrypted. No certificate is needed to get it.
pub(crate) const NOT_TLS: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 53\r\n\r\nThis server speaks TLS: use https:// in place of http";

const DAY: Duration = Duration::from_secs(86_400);

/// How long a certificate is valid that was made here. Apple's systems accept no more than 825 days.
const VALID_DAYS: u32 = 800;

/// Why a server cannot speak TLS. Nothing of a private key is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The issuer's certificate cannot be written to the file.
    #[error("{} cannot be written: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file contains no certificate.
    #[error(
        "{} contains no certificate that can be read: it must be PEM, which begins with -----BEGIN CERTIFICATE-----",
        file.display()
    )]
    Certificate {
        /// The file.
        file: PathBuf,
    },
    /// The file contains no private key.
    #[error(
        "{} contains no private key that can be read: it must be PEM without a password, which begins with \
         -----BEGIN PRIVATE KEY-----",
        file.display()
    )]
    Key {
        /// The file.
        file: PathBuf,
    },
    /// The private key belongs to another certificate.
    #[error("the private key in {} does not belong to the first certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The private key's file.
        key: PathBuf,
    },
    /// A certificate cannot be for this name.
    #[error("a certificate cannot be for {name:?}: expected a host name or an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// There are more names, or a file for the issuer's certificate, for a certificate that is not made here.
    #[error(
        "a certificate from a file has its names and its issuer: more names, and a file for the issuer's certificate, are \
         for one that is self-signed"
    )]
    NotSelfSigned,
    /// The system did not make a certificate.
    #[error("a certificate cannot be made: {0}")]
    Made(String),
}

impl From<rcgen::Error> for TlsError {
    fn from(error: rcgen::Error) -> Self {
        Self::Made(error.to_string())
    }
}

/// A certificate with those that lead to its issuer, its private key, and the issuer's certificate if it was made here.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    issuer: Option<String>,
}

/// How a server at this address speaks TLS, and the issuer's certificate, in PEM, if it was made here.
pub(crate) fn configure(
    tls: &Tls,
    address: IpAddr,
) -> Result<(Arc<ServerConfig>, Option<String>), TlsError> {
    let Identity { chain, key, issuer } = match &tls.files {
        None => self_signed(tls, address)?,
        Some(_) if !tls.names.is_empty() || tls.ca_out.is_some() => {
            return Err(TlsError::NotSelfSigned);
        }
        Some((certificate, key)) => Identity {
            chain: certificates(certificate)?,
            key: PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|_| TlsError::Key { file: key.clone() })?,
            issuer: None,
        },
    };
    // Named, because a program can link more than one, and none of them is then the default.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Made(error.to_string()))?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(file)? {
                roots.add(root).map_err(|_| no_certificate(file))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|_| no_certificate(file))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let Some((certificate, key)) = tls.files.clone() else {
            return TlsError::Made(error.to_string());
        };
        match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::Mismatch { certificate, key }
            }
            Error::InvalidCertificate(_) => no_certificate(&certificate),
            _ => TlsError::Key { file: key },
        }
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if let (Some(file), Some(pem)) = (&tls.ca_out, &issuer) {
        fs::write(file, pem).map_err(|source| {
            let file = file.clone();
            TlsError::Write { file, source }
        })?;
    }
    Ok((Arc::new(config), issuer))
}

/// A certificate for this machine, from an issuer that exists for as long as this function runs.
fn self_signed(tls: &Tls, address: IpAddr) -> Result<Identity, TlsError> {
    let mut names = ["localhost", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec();
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    for name in &tls.names {
        let name = name.clone();
        if ServerName::try_from(name.as_str()).is_err() {
            return Err(TlsError::Name { name });
        }
        names.push(name);
    }
    let today = DateTime::<Utc>::from(SystemTime::now());
    let today = date_time_ymd(today.year(), today.month() as u8, today.day() as u8);
    let named = |name: &str, names: Vec<String>| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = today - DAY;
        params.not_after = today + DAY * VALID_DAYS;
        Ok::<_, rcgen::Error>(params)
    };

    let mut issuer = named("dealkit-server's issuer", Vec::new())?;
    issuer.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let issuer_key = KeyPair::generate()?;
    let pem = issuer.self_signed(&issuer_key)?.pem();

    let mut leaf = named("dealkit-server", names)?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&key, &Issuer::new(issuer, issuer_key))?;
    Ok(Identity {
        chain: vec![leaf.into()],
        key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        issuer: Some(pem),
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(file)?).collect();
    // The error may hold a line of the file, which may be one of a private key.
    read.ok()
        .filter(|certificates| !certificates.is_empty())
        .ok_or_else(|| no_certificate(file))
}

fn no_certificate(file: &Path) -> TlsError {
    let file = file.to_owned();
    TlsError::Certificate { file }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|source| {
        let file = file.to_owned();
        TlsError::Read { file, source }
    })
}
