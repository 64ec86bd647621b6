//! The deals that a server starts with: from a file, from the embedding program, or generated.

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File, FileType},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use dealkit::Deal;
use serde_json::value::RawValue;

use crate::{
    json,
    state::{generate, store::StoredDeal},
};

/// A JSON array.
const SAMPLES: &str = include_str!("samples.json");

/// A common mistake, and what to do about it.
const SINGLE_VALUE: &str = "is only part of a JSON value that spans several lines; a file must be a JSON array of \
    deals, or have one deal per line: put [ ] around the value";

/// How many deals can be generated: this many take five gigabytes.
const MAX_GENERATED: usize = 1_000_000;

/// What errors call standard input, which has no path.
const STANDARD_INPUT: &str = "standard input";

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

impl From<dealkit::Json> for SeedDeal {
    fn from(value: dealkit::Json) -> Self {
        value.as_str().into()
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
        let samples: Vec<&RawValue> = serde_json::from_str(SAMPLES).unwrap_or_default();
        samples
            .into_iter()
            .map(|sample| sample.get().into())
            .collect()
    }

    /// Checks the text; `place` says where it came from in an error.
    pub(crate) fn check(self, place: &str) -> Result<StoredDeal, SeedError> {
        json::check(&self.0).map_err(|error| SeedError::Deal {
            place: place.to_owned(),
            pointer: String::new(),
            reason: format!("is not strict JSON: {error}"),
        })?;
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
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path names something that is not a regular file. It is not opened: a FIFO would wait for a writer,
    /// and a device may never end.
    #[error("{}: is {kind}, but deals are only read from regular files", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it names, such as `a directory`.
        kind: &'static str,
    },
    /// There is more to read than [`Config::max_seed_bytes`](crate::Config::max_seed_bytes) allows.
    #[error("{}: is larger than the limit of {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The file is neither a JSON array of deals nor one deal per line.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// One of the deals is not a deal.
    #[error("{place}{}{pointer}: {reason}", if pointer.is_empty() { "" } else { ": " })]
    Deal {
        /// Where it came from: `deals.json: line 3`, `deals.json: index 2`, `index 2`.
        place: String,
        /// The JSON pointer of the value that is wrong; empty for the deal as a whole.
        pointer: String,
        /// What is wrong.
        reason: String,
    },
    /// Two deals have the same id.
    #[error("{place}: /id: another deal already has this id: {first}")]
    DuplicateId {
        /// Where the second one came from.
        place: String,
        /// Where the first one came from.
        first: String,
    },
    /// There are more deals to generate than a server can hold.
    #[error("generate: expected at most {limit} deals")]
    TooManyGenerated {
        /// The limit.
        limit: usize,
    },
    /// The store of a running server has no room for another deal. See
    /// [`Config::max_store_bytes`](crate::Config::max_store_bytes).
    #[error("deal: the store is full; raise max_store_bytes, or reset it")]
    StoreFull,
}

/// What the file is, if deals cannot be read from it; `None` for a regular file.
fn unreadable(file: FileType) -> Option<&'static str> {
    if file.is_file() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if file.is_fifo() {
            return Some("a pipe (a FIFO or a process substitution)");
        }
        if file.is_socket() {
            return Some("a socket");
        }
        if file.is_char_device() || file.is_block_device() {
            return Some("a device");
        }
    }
    Some(if file.is_dir() {
        "a directory"
    } else {
        "something other than a file"
    })
}

/// Checked deals with distinct ids, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    deals: Vec<StoredDeal>,
    /// Where each id came from.
    origins: HashMap<Box<str>, Origin>,
}

/// Where a deal came from. Written out only in errors: there can be a million of them.
#[derive(Clone, Debug)]
enum Origin {
    Index(usize),
    FileIndex(Arc<Path>, usize),
    FileLine(Arc<Path>, usize),
    Generated(usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Index(index) => write!(f, "index {index}"),
            Origin::FileIndex(path, index) => write!(f, "{}: index {index}", path.display()),
            Origin::FileLine(path, line) => write!(f, "{}: line {line}", path.display()),
            Origin::Generated(index) => write!(f, "generated deal {index}"),
        }
    }
}

impl Seeds {
    /// Deals of the embedding program.
    pub(crate) fn add_all(
        &mut self,
        deals: impl IntoIterator<Item = SeedDeal>,
    ) -> Result<(), SeedError> {
        for (index, deal) in deals.into_iter().enumerate() {
            self.add(deal, Origin::Index(index))?;
        }
        Ok(())
    }

    /// The deals of a regular file of at most `limit` bytes: a JSON array, or one deal per line.
    pub(crate) fn add_file(&mut self, path: &Path, limit: u64) -> Result<(), SeedError> {
        let failed = |source| SeedError::Read {
            path: path.to_owned(),
            source,
        };
        let regular = |metadata: &fs::Metadata| match unreadable(metadata.file_type()) {
            None => Ok(()),
            Some(kind) => Err(SeedError::NotAFile {
                path: path.to_owned(),
                kind,
            }),
        };
        // Before opening, which blocks on a FIFO; and after, because it may be another file by then.
        regular(&fs::metadata(path).map_err(failed)?)?;
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        regular(&metadata)?;
        if metadata.len() > limit {
            return Err(SeedError::TooLarge {
                path: path.to_owned(),
                limit,
            });
        }
        self.add_read(path, file, limit)
    }

    /// The deals on standard input, in either form of a file.
    pub(crate) fn add_stdin(&mut self, limit: u64) -> Result<(), SeedError> {
        self.add_read(Path::new(STANDARD_INPUT), io::stdin().lock(), limit)
    }

    fn add_read(&mut self, path: &Path, from: impl Read, limit: u64) -> Result<(), SeedError> {
        let mut bytes = Vec::new();
        let read = from.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|source| SeedError::Read {
            path: path.to_owned(),
            source,
        })?;
        if bytes.len() as u64 > limit {
            return Err(SeedError::TooLarge {
                path: path.to_owned(),
                limit,
            });
        }
        self.add_file_text(path, &bytes)
    }

    /// `count` generated deals.
    pub(crate) fn add_generated(&mut self, count: usize, seed: u64) -> Result<(), SeedError> {
        if count > MAX_GENERATED {
            return Err(SeedError::TooManyGenerated {
                limit: MAX_GENERATED,
            });
        }
        for index in 0..count {
            // Not checked again: the generator's tests make sure that every generated deal is valid.
            let deal = (
                generate::id(index).into(),
                generate::deal(index, seed).into(),
            );
            self.keep(deal, Origin::Generated(index))?;
        }
        Ok(())
    }

    pub(crate) fn into_deals(self) -> Vec<StoredDeal> {
        self.deals
    }

    fn add_file_text(&mut self, path: &Path, bytes: &[u8]) -> Result<(), SeedError> {
        let wrong = |reason: String| SeedError::File {
            path: path.to_owned(),
            reason,
        };
        let shared: Arc<Path> = path.into();
        match bytes.trim_ascii_start().first() {
            Some(b'[') => {
                let text = json::check(bytes)
                    .map_err(|error| wrong(format!("is not strict JSON: {error}")))?;
                let deals: Vec<&RawValue> = serde_json::from_str(text)
                    .map_err(|error| wrong(format!("is not a JSON array of deals: {error}")))?;
                for (index, deal) in deals.into_iter().enumerate() {
                    self.add(deal.get().into(), Origin::FileIndex(shared.clone(), index))?;
                }
            }
            Some(_) => self.add_lines(&shared, bytes)?,
            None => {
                return Err(wrong(
                    "is empty; for a server without deals write []".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn add_lines(&mut self, path: &Arc<Path>, bytes: &[u8]) -> Result<(), SeedError> {
        let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
        for (line, number) in lines.filter(|(line, _)| !line.trim_ascii().is_empty()) {
            let place = Origin::FileLine(path.clone(), number);
            let text = json::check(line.strip_suffix(b"\r").unwrap_or(line)).map_err(|error| {
                let mut reason = format!(
                    "is not strict JSON: {} at column {}",
                    error.reason(),
                    error.column()
                );
                if number == 1 && json::check(bytes).is_ok() {
                    reason = SINGLE_VALUE.to_owned();
                }
                SeedError::Deal {
                    place: place.to_string(),
                    pointer: String::new(),
                    reason,
                }
            })?;
            self.add(text.into(), place)?;
        }
        Ok(())
    }

    fn add(&mut self, deal: SeedDeal, place: Origin) -> Result<(), SeedError> {
        let deal = deal.check(&place.to_string())?;
        self.keep(deal, place)
    }

    fn keep(&mut self, deal: StoredDeal, place: Origin) -> Result<(), SeedError> {
        let (id, _) = &deal;
        if let Some(first) = self.origins.get(id) {
            return Err(SeedError::DuplicateId {
                place: place.to_string(),
                first: first.to_string(),
            });
        }
        self.origins.insert(id.clone(), place);
        self.deals.push(deal);
        Ok(())
    }
}
