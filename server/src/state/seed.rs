//! Sources of a server's initial deals: files, the embedding program, the generator.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use dealkit::{Deal, text_encoding::to_utf8};
use serde_json::value::RawValue;

use crate::{
    json,
    state::{
        generate,
        store::{SeededDeal, StoredDeal},
    },
};

/// Maximum number of generated deals, whose ids use about 100 MB.
const MAX_GENERATED: usize = 1_000_000;

/// Number of generated deals stored as JSON, about 5 MB. The other generated deals are generated again for each request.
const MAX_STORED_AS_JSON: usize = 1_000;

/// An initial deal: JSON text, or a value that is serialized to JSON. JSON text is served unchanged, byte for byte. An
/// invalid deal is an error when the server starts.
///
/// ```
/// use dealkit_server::SeedDeal;
///
/// let text = SeedDeal::from(r#"{"id": "d_1", "application": {"requested_amount": 10.10}}"#);
/// let value = SeedDeal::from(serde_json::json!({"id": "d_2"}));
/// ```
#[derive(Clone)]
pub struct SeedDeal(Bytes);

impl fmt::Debug for SeedDeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeedDeal({} bytes)", self.0.len())
    }
}

impl From<&str> for SeedDeal {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for SeedDeal {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for SeedDeal {
    fn from(text: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(text.trim_ascii()))
    }
}

impl From<serde_json::Value> for SeedDeal {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<Deal> for SeedDeal {
    fn from(deal: Deal) -> Self {
        // Serialization cannot fail: a deal contains only strings, numbers and maps with string keys.
        Self(serde_json::to_vec(&deal).unwrap_or_default().into())
    }
}

impl SeedDeal {
    /// Returns the three default deals `d_1`, `d_2` and `d_3`, to serve them in addition to your own.
    pub fn samples() -> Vec<Self> {
        let samples: Vec<&RawValue> = serde_json::from_str(generate::SAMPLES).unwrap_or_default();
        samples
            .into_iter()
            .map(|sample| sample.get().into())
            .collect()
    }

    /// Validates the JSON text; `location` names the deal's source in error messages.
    pub(crate) fn check(self, location: &str) -> Result<StoredDeal, SeedError> {
        json::check(&self.0).map_err(|error| json_error(location, &error))?;
        let deal = Deal::from_json(&self.0).map_err(|error| SeedError::Deal {
            location: location.to_owned(),
            pointer: error.pointer().to_owned(),
            reason: error.detail().to_string(),
        })?;
        Ok((deal.id.as_str().into(), self.0))
    }
}

/// An error in the initial deals. The message names the file, the `line` or `index` in it, and the JSON pointer into the
/// deal, and contains no value of the deal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// The file could not be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A deal is invalid, or has the same id as another deal, or the file is neither a JSON array nor one deal per line.
    #[error("{location}{}{pointer}: {reason}", if pointer.is_empty() { "" } else { ": " })]
    Deal {
        /// The deal's source: `deals.json: line 3`, `deals.json: index 2`, `index 2`.
        location: String,
        /// The JSON pointer of the invalid value; empty for the whole deal.
        pointer: String,
        /// The reason.
        reason: String,
    },
    /// The store of a running server is full. See
    /// [`SandboxBuilder::max_store_bytes`](crate::SandboxBuilder::max_store_bytes).
    #[error("deal: the store is full; raise max_store_bytes, or reset it")]
    StoreFull,
}

fn deal_error(location: &str, reason: impl Into<String>) -> SeedError {
    SeedError::Deal {
        location: location.to_owned(),
        pointer: String::new(),
        reason: reason.into(),
    }
}

fn json_error(location: &str, error: &json::JsonError) -> SeedError {
    deal_error(location, format!("is not strict JSON: {error}"))
}

/// Validated deals, by id.
#[derive(Debug, Default)]
pub(crate) struct Seeds(pub(crate) BTreeMap<Box<str>, SeededDeal>);

impl Seeds {
    /// Adds the deals of an array. Error messages begin with `location_prefix`, then the index.
    pub(crate) fn add_all<D: Into<SeedDeal>>(
        &mut self,
        location_prefix: &str,
        deals: impl IntoIterator<Item = D>,
    ) -> Result<(), SeedError> {
        let mut deals = deals.into_iter().enumerate();
        deals.try_for_each(|(index, deal)| {
            self.add_deal(deal.into(), format!("{location_prefix}index {index}"))
        })
    }

    /// Adds the deals of a file: a JSON array, or one deal per line.
    pub(crate) fn add_file(&mut self, path: &Path) -> Result<(), SeedError> {
        let bytes = fs::read(path).map_err(|error| SeedError::Read {
            path: path.to_owned(),
            error,
        })?;
        let bytes = to_utf8(&bytes);
        let path = path.display().to_string();
        match (bytes.trim_ascii_start().first(), json::check(&bytes)) {
            (None, _) => Err(deal_error(
                &path,
                "is empty; for a server without deals write []",
            )),
            (Some(b'['), Ok(text)) => {
                let deals: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                self.add_all(&format!("{path}: "), deals.iter().map(|deal| deal.get()))
            }
            (Some(b'['), Err(error)) => Err(json_error(&path, &error)),
            // A file with one deal, possibly on several lines.
            (_, Ok(text)) => self.add_deal(text.into(), format!("{path}: line 1")),
            (_, Err(_)) => {
                let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
                let mut lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
                lines.try_for_each(|(line, number)| {
                    self.add_deal(line.into(), format!("{path}: line {number}"))
                })
            }
        }
    }

    pub(crate) fn add_generated(&mut self, count: usize, seed: u64) -> Result<(), SeedError> {
        if count > MAX_GENERATED {
            let reason = format!("expected at most {MAX_GENERATED} deals");
            return Err(deal_error("generate", reason));
        }
        for index in 0..count {
            // Unchecked: the generator's tests ensure that every generated deal is valid.
            let deal = match index < MAX_STORED_AS_JSON {
                true => SeededDeal::Text(generate::deal(index, seed).into()),
                false => SeededDeal::Generated { index, seed },
            };
            let location = || format!("generated deal {index}");
            self.insert(generate::id(index).into(), deal, location)?;
        }
        Ok(())
    }

    fn add_deal(&mut self, deal: SeedDeal, location: String) -> Result<(), SeedError> {
        let (id, text) = deal.check(&location)?;
        self.insert(id, SeededDeal::Text(text), || location)
    }

    fn insert(
        &mut self,
        id: Box<str>,
        deal: SeededDeal,
        location: impl FnOnce() -> String,
    ) -> Result<(), SeedError> {
        match self.0.insert(id, deal) {
            None => Ok(()),
            Some(_) => Err(SeedError::Deal {
                location: location(),
                pointer: "/id".to_owned(),
                reason: "another deal already has this id".to_owned(),
            }),
        }
    }
}
