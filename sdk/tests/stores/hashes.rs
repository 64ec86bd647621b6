//! Hashes of keys, requests, e-mail addresses and headers: the same bytes in every version.

use super::hex;
use crate::ledger::{key_hash::Salt, store::Header};

#[test]
fn hashes_match_the_specification_of_ledgers() {
    // Made with Python: salt = bytes(range(32)); hashlib.blake2b(salt + b"…", digest_size=16)
    let salt = Salt(std::array::from_fn(|n| n as u8));
    let hash_key = |name, key| hex(&salt.hash_key(name, key).0);
    assert_eq!(
        hash_key(None, "ada@example.com"),
        "c97431b51534f9ce9f1d46c7780316b8"
    );
    // Keys are normalised (NFC, no format characters); e-mail addresses are lower-cased too.
    for key in [
        "\u{feff}Jose\u{301}@Example.com",
        "jos\u{e9}@exam\u{ad}ple.com\u{200b}",
    ] {
        assert_eq!(
            hash_key(Some("email"), key),
            hash_key(None, "jos\u{e9}@example.com")
        );
    }
    assert_ne!(hash_key(Some("id"), "A"), hash_key(Some("id"), "a"));
    let requests = [
        r#"{"email":"ada@example.com","profile":{"tier":"A","x":[1.0,null]},"a":"\u00e9"}"#,
        r#" { "a": "é", "profile": {"x": [1.0, null], "tier": "A"}, "email": "ada@example.com" } "#,
    ];
    // salt + b"request\0" + '{"a":"é","email":"ada@example.com","profile":{"tier":"A","x":[1.0,null]}}'.encode()
    for request in requests {
        let hash = salt.hash_request(request.as_bytes());
        assert_eq!(hex(&hash.0), "a18282b2037e1b817db25cdfbcf4e224");
    }
    assert_ne!(
        salt.hash_request(b"{\"x\":1.0}"),
        salt.hash_request(b"{\"x\":1}")
    );
    // salt + b"email\0ada@example.com"
    let email = salt.hash_email(" Ada@Example.com");
    assert_eq!(hex(&email.0), "1b526a8dac87802180b397bc153dc0aa");
    // salt + b"header\0" + b"\1" + (4).to_bytes(8) + b"http" + b"\0" + (0).to_bytes(8)
    let header = Header {
        salt,
        service: "http".to_owned(),
        key_name: None,
    };
    assert_eq!(
        hex(&header.compute_check()),
        "ea770e5b09a8a92760d41cb1480d5af5"
    );
    // Deeply nested JSON and invalid JSON have hashes, too.
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_ne!(salt.hash_request(deep.as_bytes()), salt.hash_request(b"["));
}
