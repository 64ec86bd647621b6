//! TLS configuration: the server's certificate, and the CAs of client certificates.

use std::{
    fmt, fs,
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Datelike as _, Utc};
use dealkit::text_encoding::to_utf8;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _,
    },
    server::WebPkiClientVerifier,
};

use crate::config::Tls;

/// The response to an unencrypted request.
pub(crate) const NOT_TLS: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 53\r\n\r\nThis server speaks TLS: use https:// in place of http";

const DAY: Duration = Duration::from_secs(86_400);

/// Validity of a self-signed certificate. Apple's systems accept at most 825 days.
const VALID_DAYS: u32 = 800;

const NO_CERTIFICATE: &str = "contains no certificate that can be read: it must be PEM, which begins with -----BEGIN CERTIFICATE-----";
const NO_KEY: &str = "contains no private key that can be read: it must be PEM without a password, which begins with \
    -----BEGIN PRIVATE KEY-----";

/// An error in the TLS configuration. The message names the file and the reason, and contains no part of a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    fn in_file(file: &Path, reason: impl fmt::Display) -> Self {
        Self(format!("{} {reason}", file.display()))
    }

    fn cannot_create(error: impl fmt::Display) -> Self {
        Self(format!("cannot create a certificate: {error}"))
    }
}

/// A certificate chain, its private key and, for a self-signed certificate, the CA certificate in PEM.
type Identity = (
    Vec<CertificateDer<'static>>,
    PrivateKeyDer<'static>,
    Option<String>,
);

/// Creates the TLS configuration of a server at this address, unless TLS is off. For a self-signed certificate, also returns
/// the CA certificate in PEM.
pub(crate) fn configure(
    tls: &Tls,
    address: IpAddr,
) -> Result<(Option<Arc<ServerConfig>>, Option<String>), TlsError> {
    let files = match &tls.tls[..] {
        [] if tls.tls_name.is_empty()
            && tls.tls_ca_out.is_none()
            && tls.tls_client_ca.is_none() =>
        {
            return Ok((None, None));
        }
        [] => {
            return Err(TlsError(
                "the settings for TLS have no effect because TLS is off: set tls, too".to_owned(),
            ));
        }
        [value] if *value == *"self-signed" => None,
        [certificate, rest @ ..] => Some((certificate, rest.first().unwrap_or(certificate))),
    };
    let (chain, key, ca_pem) = match files {
        None => create_self_signed(&tls.tls_name, address)?,
        Some((certificate, _)) if !tls.tls_name.is_empty() || tls.tls_ca_out.is_some() => {
            let reason = "already has names and a CA: more names, and a file for the CA certificate, need a self-signed \
                          certificate";
            return Err(TlsError::in_file(certificate, reason));
        }
        Some((certificate, key)) => {
            let private_key = PrivateKeyDer::from_pem_slice(&read_file(key)?);
            let private_key = private_key.map_err(|_| TlsError::in_file(key, NO_KEY))?;
            (read_certificates(certificate)?, private_key, None)
        }
    };
    // Choose a provider explicitly: rustls has no default provider if a program links several.
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::cannot_create)?;
    let builder = match &tls.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let invalid = || TlsError::in_file(file, NO_CERTIFICATE);
            let mut roots = RootCertStore::empty();
            for root in read_certificates(file)? {
                roots.add(root).map_err(|_| invalid())?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|_| invalid())?)
        }
    };
    let config = builder.with_single_cert(chain, key);
    let mut config = config.map_err(|error| match files {
        Some((certificate, key)) => {
            let certificate = certificate.display();
            let reason = format!(
                "does not belong to the first certificate in {certificate}, or one of them cannot be used: {error}"
            );
            TlsError::in_file(key, reason)
        }
        None => TlsError::cannot_create(error),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if let (Some(file), Some(pem)) = (&tls.tls_ca_out, &ca_pem) {
        let write_error = |error| TlsError::in_file(file, format!("cannot be written: {error}"));
        fs::write(file, pem).map_err(write_error)?;
    }
    Ok((Some(Arc::new(config)), ca_pem))
}

/// Creates a certificate for this machine. The private key of its CA is not stored.
fn create_self_signed(extra_names: &[String], address: IpAddr) -> Result<Identity, TlsError> {
    let mut names = ["localhost", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec();
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names.extend_from_slice(extra_names);
    if let Some(name) =
        (extra_names.iter()).find(|name| ServerName::try_from(name.as_str()).is_err())
    {
        return Err(TlsError(format!(
            "a certificate cannot be for {name:?}: expected a host name or an IP address"
        )));
    }
    issue_certificate(names).map_err(TlsError::cannot_create)
}

fn issue_certificate(names: Vec<String>) -> Result<Identity, rcgen::Error> {
    let today = DateTime::<Utc>::from(SystemTime::now());
    let today = date_time_ymd(today.year(), today.month() as u8, today.day() as u8);
    let make_params = |name: &str, names: Vec<String>| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = today - DAY;
        params.not_after = today + DAY * VALID_DAYS;
        Ok(params)
    };

    let mut issuer = make_params("dealkit-server's issuer", Vec::new())?;
    issuer.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let issuer_key = KeyPair::generate()?;
    let pem = issuer.self_signed(&issuer_key)?.pem();

    let mut leaf = make_params("dealkit-server", names)?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&key, &Issuer::new(issuer, issuer_key))?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![leaf.into()], key.into(), Some(pem)))
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read_file(file)?).collect();
    // Drop the error, which may contain a line of a private key.
    certificates
        .ok()
        .filter(|certificates| !certificates.is_empty())
        .ok_or_else(|| TlsError::in_file(file, NO_CERTIFICATE))
}

fn read_file(file: &Path) -> Result<Vec<u8>, TlsError> {
    let bytes = fs::read(file);
    let bytes =
        bytes.map_err(|error| TlsError::in_file(file, format!("cannot be read: {error}")))?;
    Ok(to_utf8(&bytes).into_owned())
}
