//! Seed files.

use std::{env, fs, path::Path};

use bytes::Bytes;
use dealkit::Deal;
use dealkit_server::{Sandbox, SeedDeal, SeedError, Service, StartError, json};
use serde_json::value::RawValue;
use tempfile::NamedTempFile;

use crate::{identifier::escaped, sandbox};

/// Any bytes as a seed file.
pub fn seed(data: &[u8]) {
    // In memory, where possible.
    let memory = Path::new("/dev/shm");
    let file = if memory.is_dir() {
        NamedTempFile::new_in(memory)
    } else {
        NamedTempFile::new_in(env::temp_dir())
    };
    let file = file.unwrap();
    fs::write(&file, data).unwrap();
    let documents = documents(data);
    let service = match Sandbox::builder().deals_file(file.path()).service() {
        Ok(service) => service,
        Err(StartError::Seed(error)) => {
            return refused(file.path(), &error, documents.as_deref());
        }
        Err(other) => panic!("{other}"),
    };
    for (_, document) in documents.expect("only JSON is taken").iter().take(8) {
        let id = Deal::from_json(document).unwrap().id;
        if id.as_str().is_empty() {
            continue;
        }
        let target = format!("/v1/deals/{}", escaped(id.as_str()));
        let request = sandbox::request("GET", &target).body(Bytes::new());
        let response = service.handle(request.unwrap());
        assert_eq!(sandbox::check(&response, false), 200);
        assert_eq!(response.body(), document);
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
fn refused(path: &Path, error: &SeedError, documents: Option<&[(String, &[u8])]>) {
    let shown = error.to_string();
    let rest = shown.strip_prefix(&format!("{}: ", path.display()));
    let rest = rest.unwrap();
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
