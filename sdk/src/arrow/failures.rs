//! Batches of failures: one row for each deal that failed.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, types::Int64Type};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::{
    column::{Column, Plain, Text},
    decimals::Decimals,
};
use crate::json::decode_error::DecodeError;

/// The schema of a table of failures: `index` (`int64`), then `id`, `kind`, `status` (`int64`), `outcome` and
/// `message`, which are strings unless stated otherwise.
///
/// | column | |
/// |---|---|
/// | `index` | the index of the deal among those asked for, from 0 |
/// | `id` | the identifier that was asked for; null for a document supplied by the caller |
/// | `kind` | `status`, `decode`, `timeout`, …: see `ErrorKind::as_str` |
/// | `status` | the status of the response, if one came |
/// | `outcome` | what the call may have done; null for a document supplied by the caller |
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
pub struct FailureBatchBuilder {
    index: Plain<Int64Type>,
    id: Text,
    kind: Text,
    status: Plain<Int64Type>,
    outcome: Text,
    message: Text,
}

impl FailureBatchBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        // There are no decimals here.
        let decimals = Decimals::STRINGS;
        Self {
            index: Column::new(decimals),
            id: Column::new(decimals),
            kind: Column::new(decimals),
            status: Column::new(decimals),
            outcome: Column::new(decimals),
            message: Column::new(decimals),
        }
    }

    /// The number of failures.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the error of a deal that was asked for.
    #[cfg(feature = "client")]
    pub fn push(&mut self, index: usize, id: &str, error: &crate::Error) {
        self.push_with_message(index, id, error, &error.to_string());
    }

    /// [`push`](Self::push) with a text from the caller: for bindings, which word some things differently.
    #[cfg(feature = "client")]
    #[doc(hidden)]
    pub fn push_with_message(
        &mut self,
        index: usize,
        id: &str,
        error: &crate::Error,
        message: &str,
    ) {
        self.push_index(index);
        self.id.push(id);
        self.kind.push(error.kind().as_str());
        match error.status() {
            Some(status) => self.status.push(status.as_u16().into()),
            None => self.status.push_nothing(),
        }
        self.outcome.push(error.outcome().as_str());
        self.message.push(message);
    }

    /// Adds the error of a document supplied by the caller.
    pub fn push_document(&mut self, index: usize, error: &DecodeError) {
        self.push_index(index);
        self.id.push_nothing();
        self.kind.push("decode");
        self.status.push_nothing();
        self.outcome.push_nothing();
        self.message.push(&error.to_string());
    }

    fn push_index(&mut self, index: usize) {
        self.index.push(i64::try_from(index).unwrap_or(i64::MAX));
    }

    /// Takes the failures out as one batch.
    ///
    /// # Errors
    /// When their texts take more than 2 GiB.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let decimals = Decimals::STRINGS;
        let columns: Vec<ArrayRef> = vec![
            self.index.finish(decimals)?,
            self.id.finish(decimals)?,
            self.kind.finish(decimals)?,
            self.status.finish(decimals)?,
            self.outcome.finish(decimals)?,
            self.message.finish(decimals)?,
        ];
        RecordBatch::try_new(failure_schema(), columns)
    }
}

impl Default for FailureBatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FailureBatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureBatchBuilder")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
