//! Seed files.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use dealkit::Deal;
use dealkit_server::{Sandbox, SeedDeal, SeedError, Service, StartError, json};

use serde_json::value::RawValue;

use crate::{
    identifier::escaped,
    sandbox::{self, KEY},
};

/// One in this many accepted files is also served over a socket, which takes ten times as long as the rest.
const ONE_IN: u64 = 64;

/// Any bytes as a seed file.
pub fn seed(data: &[u8]) {
    let file = Temporary::with(data);
    let documents = documents(data);
    if let Some(error) = refusal(&file) {
        return refused(&file, &error, documents.as_deref());
    }
    let documents = documents.expect("only JSON is taken");
    let service = service(&documents, documents.len()).unwrap();
    let deals: Vec<(String, &[u8])> = documents
        .iter()
        .map(|(_, document)| (Deal::from_json(document).unwrap().id.to_string(), *document))
        .collect();
    for (id, document) in deals.iter().take(8).filter(|(id, _)| !id.is_empty()) {
        let target = format!("/v1/deals/{}", escaped(id));
        let request = sandbox::request("GET", &target).body(Bytes::new());
        let response = service.handle(request.unwrap());
        assert_eq!(sandbox::check(&response, false), 200);
        assert_eq!(response.body(), document);
    }
    if hash(data).is_multiple_of(ONE_IN) {
        served(&file, &deals);
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
    match Sandbox::builder().deals_file(&file.0).service() {
        Err(StartError::Seed(error)) => Some(error),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    }
}

/// The documents in a file, each with its place: the elements of an array, one deal that may have several lines, or the
/// lines that are not blank. `None` for an array that is not JSON.
fn documents(data: &[u8]) -> Option<Vec<(String, &[u8])>> {
    if data.trim_ascii_start().starts_with(b"[") {
        let elements: Vec<&RawValue> = serde_json::from_slice(data).ok()?;
        let elements = elements.into_iter().map(|element| element.get().as_bytes());
        return Some(
            (0..)
                .map(|index| format!("index {index}"))
                .zip(elements)
                .collect(),
        );
    }
    if json::check(data).is_ok() {
        return Some(vec![("line 1".to_owned(), data.trim_ascii())]);
    }
    let lines = data.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = (1..).map(|line| format!("line {line}")).zip(lines);
    Some(lines.filter(|(_, line)| !line.is_empty()).collect())
}

/// A service with the first `count` documents of a file, if it takes them.
fn service(documents: &[(String, &[u8])], count: usize) -> Result<Service, StartError> {
    let deals = documents[..count].iter();
    let deals = deals.map(|(_, document)| SeedDeal::from(*document));
    Sandbox::builder().deals(deals).service()
}

/// The error names the file, and in it the first document that, after those before it, is refused by itself too.
fn refused(file: &Temporary, error: &SeedError, documents: Option<&[(String, &[u8])]>) {
    let shown = error.to_string();
    let path = file.0.display();
    let rest = shown.strip_prefix(&format!("{path}: ")).unwrap();
    let Some(documents) = documents.filter(|documents| !documents.is_empty()) else {
        return;
    };
    let is_named = |(place, _): &(String, &[u8])| {
        let after = rest.strip_prefix(place.as_str());
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
    };
    if let Some(at) = documents.iter().position(is_named) {
        service(documents, at).unwrap_or_else(|earlier| panic!("{shown}, but {earlier}"));
        assert!(service(documents, at + 1).is_err(), "{shown}");
    } else {
        // An array that is not strict JSON is refused as a whole.
        assert!(service(documents, documents.len()).is_err(), "{shown}");
    }
}

/// Checks that a server started with the file responds with its bytes.
fn served(file: &Temporary, deals: &[(String, &[u8])]) {
    let sandbox = Sandbox::builder().deals_file(&file.0).start().unwrap();
    for (id, document) in deals.iter().take(2).filter(|(id, _)| !id.is_empty()) {
        let mut stream = TcpStream::connect(sandbox.address()).unwrap();
        let request = format!(
            "GET /v1/deals/{} HTTP/1.1\r\nhost: localhost\r\nx-service-key: {KEY}\r\nconnection: close\r\n\r\n",
            escaped(id)
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200 "));
        assert!(response.ends_with(&[b"\r\n\r\n", *document].concat()));
    }
}

/// FNV-1a: the same files are served on every run.
fn hash(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
