//! The deals that a server starts with: from a file, from the embedding program, or generated.

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

/// The most deals that can be generated: the ids of this many take about a hundred megabytes.
const MAX_GENERATED: usize = 1_000_000;

/// The number of generated deals that are kept as text: about five megabytes. The text of any other is made for each request.
const KEPT_AS_TEXT: usize = 1_000;

/// A deal to seed, as JSON text or as a value that is written as such. Text is served byte for byte as it is; it is read, and
/// refused if it is no deal, when the server starts.
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
        // A deal is strings, numbers and maps with string keys, which always serialize to JSON.
        Self(serde_json::to_vec(&deal).unwrap_or_default().into())
    }
}

impl SeedDeal {
    /// The three deals `d_1`, `d_2` and `d_3` of a server that was given no deals.
    ///
    /// For a server that is to serve them alongside others.
    pub fn samples() -> Vec<Self> {
        let samples: Vec<&RawValue> = serde_json::from_str(generate::SAMPLES).unwrap_or_default();
        samples
            .into_iter()
            .map(|sample| sample.get().into())
            .collect()
    }

    /// Checks the text; `place` says where it came from in an error.
    pub(crate) fn check(self, place: &str) -> Result<StoredDeal, SeedError> {
        json::check(&self.0).map_err(|error| not_json(place, &error))?;
        let deal = Deal::from_json(&self.0).map_err(|error| SeedError::Deal {
            place: place.to_owned(),
            pointer: error.pointer().to_owned(),
            reason: error.detail().to_string(),
        })?;
        Ok((deal.id.as_str().into(), self.0))
    }
}

/// Why deals were refused as a seed. It names the file, the `line` or `index` in it, and the JSON pointer
/// into the deal, and repeats no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// The file could not be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// One of the deals is not a deal or has the id of another one, or they are not in one of the forms of a file.
    #[error("{place}{}{pointer}: {reason}", if pointer.is_empty() { "" } else { ": " })]
    Deal {
        /// Where it came from: `deals.json: line 3`, `deals.json: index 2`, `index 2`.
        place: String,
        /// The JSON pointer of the value that is wrong; empty for the deal as a whole.
        pointer: String,
        /// What is wrong.
        reason: String,
    },
    /// The store of a running server has no room for another deal. See
    /// [`SandboxBuilder::max_store_bytes`](crate::SandboxBuilder::max_store_bytes).
    #[error("deal: the store is full; raise max_store_bytes, or reset it")]
    StoreFull,
}

fn wrong(place: &str, reason: impl Into<String>) -> SeedError {
    SeedError::Deal {
        place: place.to_owned(),
        pointer: String::new(),
        reason: reason.into(),
    }
}

fn not_json(place: &str, error: &json::JsonError) -> SeedError {
    wrong(place, format!("is not strict JSON: {error}"))
}

/// Checked deals, by their distinct ids.
#[derive(Debug, Default)]
pub(crate) struct Seeds(pub(crate) BTreeMap<Box<str>, SeededDeal>);

impl Seeds {
    /// Deals of an array; what their places in errors begin with.
    pub(crate) fn add_all<D: Into<SeedDeal>>(
        &mut self,
        place: &str,
        deals: impl IntoIterator<Item = D>,
    ) -> Result<(), SeedError> {
        let mut deals = deals.into_iter().enumerate();
        deals.try_for_each(|(index, deal)| self.add(deal.into(), format!("{place}index {index}")))
    }

    /// The deals of a file: a JSON array, or one deal per line.
    pub(crate) fn add_file(&mut self, path: &Path) -> Result<(), SeedError> {
        let bytes = fs::read(path).map_err(|error| SeedError::Read {
            path: path.to_owned(),
            error,
        })?;
        let bytes = to_utf8(&bytes);
        let path = path.display().to_string();
        match (bytes.trim_ascii_start().first(), json::check(&bytes)) {
            (None, _) => Err(wrong(
                &path,
                "is empty; for a server without deals write []",
            )),
            (Some(b'['), Ok(text)) => {
                let deals: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                self.add_all(&format!("{path}: "), deals.iter().map(|deal| deal.get()))
            }
            (Some(b'['), Err(error)) => Err(not_json(&path, &error)),
            // A single deal may have several lines.
            (_, Ok(text)) => self.add(text.into(), format!("{path}: line 1")),
            (_, Err(_)) => {
                let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
                let mut lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
                lines.try_for_each(|(line, number)| {
                    self.add(line.into(), format!("{path}: line {number}"))
                })
            }
        }
    }

    pub(crate) fn add_generated(&mut self, count: usize, seed: u64) -> Result<(), SeedError> {
        if count > MAX_GENERATED {
            let reason = format!("expected at most {MAX_GENERATED} deals");
            return Err(wrong("generate", reason));
        }
        for index in 0..count {
            // Not checked again: the generator's tests make sure that every generated deal is valid.
            let deal = match index < KEPT_AS_TEXT {
                true => SeededDeal::Text(generate::deal(index, seed).into()),
                false => SeededDeal::Generated { index, seed },
            };
            let place = || format!("generated deal {index}");
            self.keep(generate::id(index).into(), deal, place)?;
        }
        Ok(())
    }

    fn add(&mut self, deal: SeedDeal, place: String) -> Result<(), SeedError> {
        let (id, text) = deal.check(&place)?;
        self.keep(id, SeededDeal::Text(text), || place)
    }

    fn keep(
        &mut self,
        id: Box<str>,
        deal: SeededDeal,
        place: impl FnOnce() -> String,
    ) -> Result<(), SeedError> {
        match self.0.insert(id, deal) {
            None => Ok(()),
            Some(_) => Err(SeedError::Deal {
                place: place(),
                pointer: "/id".to_owned(),
                reason: "another deal already has this id".to_owned(),
            }),
        }
    }
}
