//! Certificates for tests. The server's tests include this file by its path.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority with a unique name.
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        Self::named(&format!("Issuer {}", MADE.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Issues a certificate for this machine, for servers and clients.
    pub(crate) fn issue(&self) -> Leaf {
        self.issue_changed(|_| ())
    }

    pub(crate) fn issue_changed(&self, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let (params, key) = leaf(change);
        Leaf::new(&params.signed_by(&key, &self.issuer).unwrap(), &key)
    }
}

fn leaf(change: impl FnOnce(&mut CertificateParams)) -> (CertificateParams, KeyPair) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    (params, KeyPair::generate().unwrap())
}

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Leaf {
    fn new(certificate: &Certificate, key: &KeyPair) -> Self {
        Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Creates a self-signed certificate.
    pub(crate) fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let (params, key) = leaf(change);
        Self::new(&params.self_signed(&key).unwrap(), &key)
    }

    /// Returns the certificate and key as one PEM file.
    pub(crate) fn pem(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}
