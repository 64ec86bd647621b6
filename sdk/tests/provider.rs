//! A rustls cryptography provider that the program installs.
#![cfg(feature = "client")]

mod peer;

use dealkit::ErrorKind;
use peer::{
    FINE, Http1, Peer, Step, answer,
    tls::{Authority, Front, Tls},
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, ring::cipher_suite};

/// Returns a provider with a single cipher suite, so that a handshake shows whether it was used.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        ..ring::default_provider()
    }
}

#[tokio::test]
async fn an_installed_provider_is_used() {
    let authority = Authority::new();
    let peer = Peer::start(Http1, vec![vec![Step::Hear, answer(200, FINE)]]);
    let front = Front::start(peer, &Tls::new(&authority.issue()));
    let build = || {
        peer::builder(&front.url())
            .root_certificates(authority.pem())
            .build()
    };
    if cfg!(not(feature = "rustls")) {
        let error = build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("install_default()"), "{error}");
    }
    provider().install_default().unwrap();
    build().unwrap().deals().retrieve("x_1").await.unwrap();
    let [handshake] = &*front.handshakes() else {
        panic!("one handshake")
    };
    assert_eq!(handshake.suite, "TLS13_CHACHA20_POLY1305_SHA256");
}
