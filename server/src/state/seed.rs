//! Sources of a server's initial deals: files, the embedding program, the generator.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use dealkit::{Deal, text_encoding::to_utf8};
use serde_json::value::RawValue;

use crate::{
    json,
    state::{
        generate,
        store::{SeedDeals, SeededDeal, StoredDeal},
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
    /// Several deals or files are invalid.
    #[error("{}", list_errors(errors, *count))]
    Several {
        /// The first errors, at most 20.
        errors: Vec<SeedError>,
        /// The number of all errors.
        count: usize,
    },
    /// The deals cannot be read again, because the sandbox was not started with a file of deals.
    #[error("there is no file of deals to reload: start the sandbox with one")]
    NoFile,
}

/// Maximum number of errors in a message.
const MAX_LISTED_ERRORS: usize = 20;

fn list_errors(errors: &[SeedError], count: usize) -> String {
    let lines = errors.iter().map(|error| format!("\n  {error}"));
    let hidden_count = count.saturating_sub(errors.len());
    let rest = (hidden_count > 0).then(|| format!("\n  {hidden_count} more"));
    let lines: String = lines.chain(rest).collect();
    format!("{count} errors in the deals:{lines}")
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

/// The sources of a server's initial deals. Without sources, the deals are the samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeedSources {
    pub(crate) deals: Option<Vec<SeedDeal>>,
    pub(crate) files: Vec<PathBuf>,
    /// The number of generated deals, and their seed.
    pub(crate) generate: Option<(usize, u64)>,
}

impl SeedSources {
    /// Reads and validates all deals.
    ///
    /// # Errors
    /// If a file cannot be read, or deals are invalid. The error contains all invalid deals.
    pub(crate) fn load(&self) -> Result<SeedDeals, SeedError> {
        let mut seeds = Seeds::default();
        if self.deals.is_none() && self.files.is_empty() && self.generate.is_none() {
            seeds.add_all("", SeedDeal::samples());
        }
        seeds.add_all("", self.deals.iter().flatten().cloned());
        for file in &self.files {
            seeds.add_file(file);
        }
        if let Some((count, seed)) = self.generate {
            seeds.add_generated(count, seed);
        }
        seeds.finish()
    }

    /// Reads and validates all deals again.
    ///
    /// # Errors
    /// As [`load`](Self::load), or if there is no file.
    pub(crate) fn reload(&self) -> Result<SeedDeals, SeedError> {
        if self.files.is_empty() {
            return Err(SeedError::NoFile);
        }
        self.load()
    }
}

/// Validated deals, by id, and the errors of the others.
#[derive(Debug, Default)]
struct Seeds {
    deals: BTreeMap<Box<str>, SeededDeal>,
    /// The first errors.
    errors: Vec<SeedError>,
    error_count: usize,
}

impl Seeds {
    /// Returns the deals if all are valid.
    fn finish(mut self) -> Result<SeedDeals, SeedError> {
        match self.errors.pop() {
            None => Ok(Arc::new(self.deals)),
            Some(error) if self.error_count == 1 => Err(error),
            Some(error) => {
                self.errors.push(error);
                Err(SeedError::Several {
                    errors: self.errors,
                    count: self.error_count,
                })
            }
        }
    }

    fn add_error(&mut self, error: SeedError) {
        self.error_count += 1;
        if self.errors.len() < MAX_LISTED_ERRORS {
            self.errors.push(error);
        }
    }

    /// Adds the deals of an array. Error messages begin with `location_prefix`, then the index.
    fn add_all<D: Into<SeedDeal>>(
        &mut self,
        location_prefix: &str,
        deals: impl IntoIterator<Item = D>,
    ) {
        for (index, deal) in deals.into_iter().enumerate() {
            self.add_deal(deal.into(), format!("{location_prefix}index {index}"));
        }
    }

    /// Adds the deals of a file: a JSON array, or one deal per line.
    fn add_file(&mut self, path: &Path) {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let path = path.to_owned();
                return self.add_error(SeedError::Read { path, error });
            }
        };
        let bytes = to_utf8(&bytes);
        let path = path.display().to_string();
        match (bytes.trim_ascii_start().first(), json::check(&bytes)) {
            (None, _) => self.add_error(deal_error(
                &path,
                "is empty; for a server without deals write []",
            )),
            (Some(b'['), Ok(text)) => {
                let deals: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                self.add_all(&format!("{path}: "), deals.iter().map(|deal| deal.get()));
            }
            (Some(b'['), Err(error)) => self.add_error(json_error(&path, &error)),
            // A file with one deal, possibly on several lines.
            (_, Ok(text)) => self.add_deal(text.into(), format!("{path}: line 1")),
            (_, Err(_)) => {
                for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
                    if !line.trim_ascii().is_empty() {
                        self.add_deal(line.into(), format!("{path}: line {number}"));
                    }
                }
            }
        }
    }

    fn add_generated(&mut self, count: usize, seed: u64) {
        if count > MAX_GENERATED {
            let reason = format!("expected at most {MAX_GENERATED} deals");
            return self.add_error(deal_error("generate", reason));
        }
        for index in 0..count {
            // Unchecked: the generator's tests ensure that every generated deal is valid.
            let deal = match index < MAX_STORED_AS_JSON {
                true => SeededDeal::Text(generate::deal(index, seed).into()),
                false => SeededDeal::Generated { index, seed },
            };
            let location = || format!("generated deal {index}");
            self.insert(generate::id(index).into(), deal, location);
        }
    }

    fn add_deal(&mut self, deal: SeedDeal, location: String) {
        match deal.check(&location) {
            Ok((id, text)) => self.insert(id, SeededDeal::Text(text), || location),
            Err(error) => self.add_error(error),
        }
    }

    fn insert(&mut self, id: Box<str>, deal: SeededDeal, location: impl FnOnce() -> String) {
        if self.deals.insert(id, deal).is_some() {
            self.add_error(SeedError::Deal {
                location: location(),
                pointer: "/id".to_owned(),
                reason: "another deal already has this id".to_owned(),
            });
        }
    }
}
