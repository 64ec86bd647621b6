//! Documents one per line (NDJSON, JSON Lines), read one at a time.

use std::{
    fmt,
    io::{self, BufRead, Read as _},
    iter::FusedIterator,
};

use crate::json::{decode_error::DecodeError, document::without_bom, unreadable::Unreadable};

/// The maximum length of a line unless [`JsonLines::max_line_bytes`] sets another: 64 MiB.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Reads documents one per line, such as an export of deals, holding one line at a time; every model's
/// `from_json_lines` returns one.
///
/// It is an iterator. A line that cannot be decoded is an error with its line number, and the next line is still read.
/// Only an error of the underlying reader is the last item. Lines end with a line feed, optionally preceded by a
/// carriage return; the last one may end with the input. Blank lines and a byte order mark are skipped. Each line is a
/// document with the limit of one, a million values, and is not longer than [`MAX_LINE_BYTES`].
///
/// ```
/// use dealkit::Deal;
///
/// // Or std::io::BufReader::new(std::fs::File::open("deals.ndjson")?)
/// let export = r#"{"id": "d_1", "status": "CLOSED"}
/// {"id": "d_2", "expiry_date": "soon"}
///
/// {"id": "d_3"}"#;
///
/// let mut ids = Vec::new();
/// for item in Deal::from_json_lines(export.as_bytes()) {
///     match item {
///         Ok(deal) => ids.push(deal.id.to_string()),
///         Err(error) => assert_eq!(
///             error.to_string(),
///             "line 2: at expiry_date: expected a date YYYY-MM-DD, found a string",
///         ),
///     }
/// }
/// assert_eq!(ids, ["d_1", "d_3"]);
///
/// // All of them, or the first error:
/// let deals: Result<Vec<Deal>, _> = Deal::from_json_lines(export.as_bytes()).collect();
/// assert_eq!(deals.unwrap_err().line(), 2);
/// ```
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct JsonLines<R, T> {
    reader: R,
    /// The number of the line in `buffer`, counted from 1.
    line: usize,
    buffer: Vec<u8>,
    limit: usize,
    /// Whether the input has ended or failed.
    is_over: bool,
    unreadable: Unreadable,
    read: fn(&[u8], Unreadable) -> Result<T, DecodeError>,
}

impl<R: BufRead, T> JsonLines<R, T> {
    /// Reads each line with `read`.
    pub(crate) fn new(reader: R, read: fn(&[u8], Unreadable) -> Result<T, DecodeError>) -> Self {
        Self {
            reader,
            line: 0,
            buffer: Vec::new(),
            limit: MAX_LINE_BYTES,
            is_over: false,
            unreadable: Unreadable::default(),
            read,
        }
    }

    /// Sets the maximum length of a line, without its line ending. A longer line is an error and is not kept, and
    /// the line after it is still read. The default is [`MAX_LINE_BYTES`].
    pub fn max_line_bytes(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets what becomes of an optional field that cannot be read. The default is [`Unreadable::Error`].
    pub fn unreadable(mut self, unreadable: Unreadable) -> Self {
        self.unreadable = unreadable;
        self
    }

    /// Reads the next line into the buffer, without its line ending; returns whether there is one.
    fn read_line(&mut self) -> Result<bool, LineError> {
        self.line += 1;
        let line = self.line;
        let failed = |source| LineError::Read { line, source };
        self.buffer.clear();
        // A line of the maximum length, and its line ending.
        let most = (self.limit as u64).saturating_add(2);
        let mut reader = self.reader.by_ref().take(most);
        if reader.read_until(b'\n', &mut self.buffer).map_err(failed)? == 0 {
            return Ok(false);
        }
        let is_whole = self.buffer.pop_if(|last| *last == b'\n').is_some();
        self.buffer.pop_if(|last| *last == b'\r');
        if self.buffer.len() <= self.limit {
            return Ok(true);
        }
        if !is_whole {
            self.reader.skip_until(b'\n').map_err(failed)?;
        }
        // Do not keep the memory of such a line for the next ones.
        self.buffer = Vec::new();
        let limit = self.limit;
        Err(LineError::TooLong { line, limit })
    }
}

impl<R: BufRead, T> Iterator for JsonLines<R, T> {
    type Item = Result<T, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.read_line() {
                Ok(true) if without_bom(&self.buffer).trim_ascii().is_empty() => {}
                Ok(true) => {
                    let line = self.line;
                    let read = (self.read)(&self.buffer, self.unreadable);
                    return Some(read.map_err(|error| LineError::Decode { line, error }));
                }
                Ok(false) => self.is_over = true,
                Err(error) => {
                    self.is_over = matches!(error, LineError::Read { .. });
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl<R: BufRead, T> FusedIterator for JsonLines<R, T> {}

impl<R, T> fmt::Debug for JsonLines<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What has been read may be personal data.
        f.debug_struct("JsonLines")
            .field("line", &self.line)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// A line could not be read. Like every dealkit error, it names the place and shows no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line could not be decoded.
    #[error("line {line}: {}", error.in_line())]
    Decode {
        /// The number of the line, counted from 1.
        line: usize,
        /// What is wrong, and the line as it was read.
        error: DecodeError,
    },
    /// The line is longer than [`JsonLines::max_line_bytes`].
    #[error("line {line} is longer than the limit of {limit} bytes")]
    TooLong {
        /// The number of the line, counted from 1.
        line: usize,
        /// The limit.
        limit: usize,
    },
    /// The underlying reader failed. Nothing is read after this.
    #[error("line {line} cannot be read: {source}")]
    Read {
        /// The number of the line, counted from 1.
        line: usize,
        /// The cause.
        source: io::Error,
    },
}

impl LineError {
    /// The number of the line, counted from 1; blank lines count.
    pub fn line(&self) -> usize {
        match self {
            Self::Decode { line, .. } | Self::TooLong { line, .. } | Self::Read { line, .. } => {
                *line
            }
        }
    }
}
