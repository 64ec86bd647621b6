//! The batches of a table as a stream that a C library reads, from any thread and perhaps holding the GIL: nothing here
//! needs it.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use super::{
    columns::End,
    job::{IN_PARENT, Shared},
};
use crate::python::failure;

pub(super) struct Reader {
    shared: Arc<Shared>,
    schema: SchemaRef,
    has_ended: bool,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, schema: SchemaRef) -> Self {
        Self {
            shared,
            schema,
            has_ended: false,
        }
    }

    /// The next batch, once it has come; `None` after the last, or why there is none.
    fn wait_for_batch(&self) -> Result<Option<RecordBatch>, String> {
        if self.shared.check().is_err() {
            return Err(IN_PARENT.to_owned());
        }
        let mut state = self.shared.state.wait_while(|state| {
            let columns = state.columns.as_ref();
            !state.has_ended && columns.is_some_and(|columns| columns.batches.is_empty())
        });
        let Some(columns) = &mut state.columns else {
            return Ok(None);
        };
        if let Some(batch) = columns.batches.pop_front() {
            drop(state);
            self.shared.changed.notify_one();
            return Ok(Some(batch));
        }
        match &columns.end {
            End::Whole => Ok(None),
            End::Failed(index, _, error) => Err(format!("deal {index}: {}", failure::text(error))),
            End::Broken(text) => Err(text.clone()),
            End::Cancelled => {
                Err("the stream was closed before the last deal had arrived".to_owned())
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.wait_for_batch();
        self.has_ended = !matches!(next, Ok(Some(_)));
        // The text becomes a C string, which a zero byte would end.
        let failed =
            |text: String| ArrowError::ExternalError(text.replace('\0', "\u{fffd}").into());
        next.map_err(failed).transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.end();
    }
}
