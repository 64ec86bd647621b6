//! Batches of failures, with one row for each deal that failed.

use std::{mem, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::{json::decode_error::DecodeError, value::opaque_debug};

/// The schema of a table of failures: `index` (`int64`), then `id`, `kind`, `status` (`int64`), `outcome` and
/// `message`, which are strings unless stated otherwise.
///
/// | column | |
/// |---|---|
/// | `index` | the index of the deal in the input, counted from 0 |
/// | `id` | the requested identifier; null for a document supplied by the caller |
/// | `kind` | `status`, `decode`, `timeout`, …: see `ErrorKind::as_str` |
/// | `status` | the status of the response, if there was one |
/// | `outcome` | the outcome of the call; null for a document supplied by the caller |
/// | `message` | the error in one line, without the identifier |
pub fn failure_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("index", DataType::Int64, false),
        Field::new("id", DataType::Utf8, true),
        Field::new("kind", DataType::Utf8, false),
        Field::new("status", DataType::Int64, true),
        Field::new("outcome", DataType::Utf8, true),
        Field::new("message", DataType::Utf8, false),
    ]))
}

/// Fills a batch with deals that failed; see [`DealBatchBuilder`](super::DealBatchBuilder) for an example.
#[derive(Default)]
pub struct FailureBatchBuilder {
    rows: Vec<Failure>,
}

struct Failure {
    index: usize,
    id: Option<String>,
    kind: &'static str,
    status: Option<u16>,
    outcome: Option<&'static str>,
    message: String,
}

impl FailureBatchBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of failures.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no failures.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the error of a requested deal.
    #[cfg(feature = "client")]
    pub fn push(&mut self, index: usize, id: &str, error: &crate::Error) {
        self.push_with_message(index, id, error, &error.to_string());
    }

    /// Adds the error of a requested deal, as `push` does, but with this message instead of the error's own. For the bindings,
    /// which word messages differently.
    #[cfg(feature = "client")]
    #[doc(hidden)]
    pub fn push_with_message(
        &mut self,
        index: usize,
        id: &str,
        error: &crate::Error,
        message: &str,
    ) {
        self.rows.push(Failure {
            index,
            id: Some(id.to_owned()),
            kind: error.kind().as_str(),
            status: error.status().map(|status| status.as_u16()),
            outcome: Some(error.outcome().as_str()),
            message: message.to_owned(),
        });
    }

    /// Adds the error of a document supplied by the caller.
    pub fn push_document(&mut self, index: usize, error: &DecodeError) {
        self.rows.push(Failure {
            index,
            id: None,
            kind: "decode",
            status: None,
            outcome: None,
            message: error.to_string(),
        });
    }

    /// Returns the failures as one batch, and empties the builder.
    ///
    /// # Errors
    /// If the strings take more than 2 GiB.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = mem::take(&mut self.rows);
        let strings = rows
            .iter()
            .flat_map(|row| [row.id.as_deref(), Some(&row.message)]);
        let bytes: usize = strings.flatten().map(str::len).sum();
        i32::try_from(bytes).map_err(|_| ArrowError::OffsetOverflowError(bytes))?;
        fn string_column(rows: &[Failure], get: impl Fn(&Failure) -> Option<&str>) -> ArrayRef {
            Arc::new(rows.iter().map(get).collect::<StringArray>())
        }
        let indexes = rows.iter().map(|row| row.index as i64);
        let statuses = rows.iter().map(|row| row.status.map(i64::from));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(indexes)),
            string_column(&rows, |row| row.id.as_deref()),
            string_column(&rows, |row| Some(row.kind)),
            Arc::new(statuses.collect::<Int64Array>()),
            string_column(&rows, |row| row.outcome),
            string_column(&rows, |row| Some(&row.message)),
        ];
        RecordBatch::try_new(failure_schema(), columns)
    }
}

opaque_debug!(FailureBatchBuilder);
