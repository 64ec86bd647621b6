//! Seed files.

use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use dealkit::Deal;
use dealkit_server::{
    Config, Sandbox, SandboxBuilder, SeedDeal, SeedError, Service, ServiceKey, StartError,
};

use crate::{
    identifier::escaped,
    json,
    sandbox::{self, KEY},
};

/// One in this many accepted files is also served over a socket, which takes ten times as long as the rest.
const ONE_IN: u64 = 64;

/// Any bytes as a seed file.
pub fn seed(data: &[u8]) {
    let file = Temporary::with(data);
    match (expected(data), refusal(&file)) {
        (Expected::Deals(deals), None) => {
            let seeds = deals.iter().map(|(_, text)| SeedDeal::from(*text));
            let service = Service::new(&Config::default(), seeds).unwrap();
            for (id, text) in deals.iter().take(8).filter(|(id, _)| !id.is_empty()) {
                let target = format!("/v1/deals/{}", escaped(id));
                let request = sandbox::request("GET", &target).body(Bytes::new());
                let response = service.handle(request.unwrap());
                assert_eq!(sandbox::check(&response, false), 200);
                assert_eq!(response.body(), text);
            }
            if hash(data).is_multiple_of(ONE_IN) {
                served(&file, &deals);
            }
        }
        (Expected::Refused(expected), Some(error)) => expected.check(&file, &error),
        (Expected::Refused(expected), None) => panic!("taken in spite of {expected:?}"),
        (Expected::Deals(_), Some(error)) => panic!("refused: {error}"),
    }
}

/// A file that is deleted when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn with(content: &[u8]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory, where possible.
        let memory = PathBuf::from("/dev/shm");
        let directory = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        let path = directory.join(format!("dealkit-fuzz-{}-{number}", std::process::id()));
        fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Why the server refuses the file, if it does.
fn refusal(file: &Temporary) -> Option<SeedError> {
    // Deals are checked before the address, and no machine has this one (RFC 5737): nothing is started.
    let mut config = Config::default();
    config.listen = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 0));
    config.service_key = Some(ServiceKey::default());
    match SandboxBuilder::new(config).deals_file(&file.0).start() {
        Err(StartError::Seed(error)) => Some(error),
        Err(StartError::Listen { .. }) | Ok(_) => None,
        Err(other) => panic!("{other}"),
    }
}

#[derive(Debug)]
enum Expected<'d> {
    /// Ids and texts.
    Deals(Vec<(String, &'d str)>),
    Refused(Refusal),
}

#[derive(Debug)]
enum Refusal {
    /// The file as a whole, with the beginning of the reason.
    File(&'static str),
    NotStrict(String),
    NoDeal {
        place: String,
        pointer: String,
        text: String,
    },
    Duplicate {
        place: String,
        first: String,
    },
}

fn expected(data: &[u8]) -> Expected<'_> {
    match data.trim_ascii_start().first() {
        None => Expected::Refused(Refusal::File("is empty")),
        Some(b'[') if !json::is_strict(data) => {
            Expected::Refused(Refusal::File("is not strict JSON: found "))
        }
        Some(b'[') => {
            let documents = json::items(json::document(data).unwrap());
            let places = (0..).map(|index| format!("index {index}"));
            deals(places.zip(documents.into_iter().map(str::as_bytes)))
        }
        Some(_) => {
            let lines = data.split(|byte| *byte == b'\n');
            let places = (1..).map(|line| format!("line {line}"));
            deals(
                places
                    .zip(lines)
                    .filter(|(_, line)| !line.trim_ascii().is_empty()),
            )
        }
    }
}

fn deals<'d>(documents: impl Iterator<Item = (String, &'d [u8])>) -> Expected<'d> {
    let mut deals = Vec::new();
    let mut places: HashMap<String, String> = HashMap::new();
    for (place, document) in documents {
        if !json::is_strict(document) {
            return Expected::Refused(Refusal::NotStrict(place));
        }
        let text = json::document(document).unwrap();
        let deal = match Deal::from_json(text) {
            Ok(deal) => deal,
            Err(error) => {
                let text = error.to_string();
                let path = format!("at {}: ", error.path());
                return Expected::Refused(Refusal::NoDeal {
                    place,
                    pointer: error.pointer().to_owned(),
                    text: text.strip_prefix(&path).unwrap_or(&text).to_owned(),
                });
            }
        };
        let id = deal.id.as_str().to_owned();
        if let Some(first) = places.insert(id.clone(), place.clone()) {
            return Expected::Refused(Refusal::Duplicate { place, first });
        }
        deals.push((id, text));
    }
    Expected::Deals(deals)
}

impl Refusal {
    fn check(&self, file: &Temporary, error: &SeedError) {
        let path = file.0.display();
        let at = |place: &str| format!("{path}: {place}");
        let shown = error.to_string();
        match (self, error) {
            (Refusal::File(begin), SeedError::File { path, reason }) => {
                assert_eq!(*path, file.0);
                assert!(reason.starts_with(begin), "{shown}");
            }
            (
                Refusal::NotStrict(place),
                SeedError::Deal {
                    place: found,
                    pointer,
                    reason,
                },
            ) => {
                assert_eq!(*found, at(place));
                assert!(pointer.is_empty());
                let known = ["is not strict JSON: found ", "is only part of a JSON value"];
                assert!(
                    known.iter().any(|known| reason.starts_with(known)),
                    "{shown}"
                );
            }
            (
                Refusal::NoDeal {
                    place,
                    pointer,
                    text,
                },
                SeedError::Deal {
                    place: found,
                    pointer: found_pointer,
                    reason,
                },
            ) => {
                assert_eq!(*found, at(place));
                assert_eq!((found_pointer, reason), (pointer, text));
            }
            (
                Refusal::Duplicate { place, first },
                SeedError::DuplicateId {
                    place: found,
                    first: found_first,
                },
            ) => assert_eq!((found, found_first), (&at(place), &at(first))),
            _ => panic!("{self:?}, but {shown}"),
        }
        assert!(shown.starts_with(&format!("{path}: ")), "{shown}");
    }
}

/// Checks that a server started with the file responds with its bytes.
fn served(file: &Temporary, deals: &[(String, &str)]) {
    let sandbox = Sandbox::builder().deals_file(&file.0).start().unwrap();
    for (id, text) in deals.iter().take(2).filter(|(id, _)| !id.is_empty()) {
        let mut stream = TcpStream::connect(sandbox.address()).unwrap();
        let request = format!(
            "GET /v1/deals/{} HTTP/1.1\r\nhost: localhost\r\nx-service-key: {KEY}\r\nconnection: close\r\n\r\n",
            escaped(id)
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200 "));
        assert!(response.ends_with(&[b"\r\n\r\n", text.as_bytes()].concat()));
    }
}

/// FNV-1a: the same files are served on every run.
fn hash(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
