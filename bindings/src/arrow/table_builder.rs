//! Builds tables from documents in memory, or from the results of `retrieve_many`.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow_array::RecordBatch;
use dealkit::{
    DecodeError, Error, Unreadable,
    arrow::{DealBatchBuilder, FailureBatchBuilder, failure_schema},
};
use pyo3::{prelude::*, types::PyList};

use crate::{
    arrow::table::{Table, arrow_failure, decimals_with_scale},
    models::response::RawResponse,
    python::{
        arguments::{document_bytes, parse_unreadable},
        failure::{self, EntryResult, Failure, NativeFailure, Result, into_python, run_entry},
        gil,
    },
};

/// Size in bytes from which a body is read without the GIL, because it takes noticeable time.
const LARGE_BODY: usize = 64 * 1024;

/// Builds a table of deals, batch by batch.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct TableBuilder(Mutex<Rows>);

struct Rows {
    deals: DealBatchBuilder,
    batch_size: usize,
    batches: VecDeque<RecordBatch>,
    failures: Option<FailureBatchBuilder>,
    /// Number of documents so far, including blank documents.
    document_count: usize,
}

/// Makes a table builder. If `scale` is None, decimals are strings.
#[pyfunction]
#[pyo3(signature = (scale, returns_errors, batch_size))]
pub(crate) fn open_table_builder(
    py: Python<'_>,
    scale: Option<u8>,
    returns_errors: bool,
    batch_size: usize,
) -> EntryResult<'_> {
    run_entry(py, || {
        Ok(TableBuilder(Mutex::new(Rows {
            deals: DealBatchBuilder::new(decimals_with_scale(scale)?),
            batch_size,
            batches: VecDeque::new(),
            failures: returns_errors.then(FailureBatchBuilder::new),
            document_count: 0,
        })))
    })
}

#[pymethods]
impl TableBuilder {
    /// Adds documents, and skips blank documents. A document that cannot be read becomes a row of the table of errors. If there is
    /// no such table, stops at this document and returns its index and failure.
    fn push<'py>(
        &self,
        documents: &Bound<'py, PyList>,
        on_unreadable: &Bound<'py, PyAny>,
    ) -> EntryResult<'py> {
        let py = documents.py();
        let objects = documents.iter().collect::<Vec<_>>();
        let documents = objects
            .iter()
            .map(document_bytes)
            .collect::<Result<Vec<_>>>();
        let push_result = documents.and_then(|documents| {
            let unreadable = parse_unreadable(on_unreadable)?;
            gil::release(py, || self.lock().push_documents(&documents, unreadable))
        });
        run_entry(py, || match push_result? {
            Some((index, error)) => {
                let failure = into_python(py, Err::<(), _>(Failure::Decode(error)))?;
                Ok(Some((index, failure)))
            }
            None => Ok(None),
        })
    }

    /// Adds a result of `retrieve_many`, which is a whole response or a failure, with its index and identifier. Returns this
    /// failure, or the failure to read the response. Returns None if the response has been read.
    fn add<'py>(&self, index: usize, id: &str, result: &Bound<'py, PyAny>) -> EntryResult<'py> {
        let py = result.py();
        let response = result.cast::<RawResponse>().map(Bound::get);
        let read_error = match response {
            Ok(RawResponse { response, .. }) => {
                let read_response = || self.lock().push_response(response);
                match response.body().len() {
                    ..LARGE_BODY => read_response(),
                    _ => gil::release(py, read_response),
                }
            }
            Err(_) => result
                .cast::<NativeFailure>()
                .map_err(PyErr::from)
                .map_err(Failure::from)
                .map(|failure| failure.get().error()),
        };
        run_entry(py, || {
            let Some(error) = read_error? else {
                return Ok(None);
            };
            if let Some(failures) = &mut self.lock().failures {
                failures.push_with_message(index, id, &error, &failure::format_error(&error));
            }
            Ok(Some(into_python(py, Err::<(), _>(Failure::Error(error)))?))
        })
    }

    /// Takes out the oldest full batch, as a table. Returns None if no batch is full.
    fn batch<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || {
            let mut rows = self.lock();
            let batch = rows.batches.pop_front();
            let table = batch.map(|batch| Table {
                schema: rows.deals.schema().clone(),
                batches: vec![batch],
                errors: None,
            });
            Ok(table.map(|table| Bound::new(py, table)).transpose()?)
        })
    }

    /// Returns a table of all remaining batches, with the errors.
    fn finish<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || {
            let mut rows = self.lock();
            rows.finish_batch()?;
            let errors = match &mut rows.failures {
                Some(failures) => {
                    let batch = failures.finish().map_err(arrow_failure)?;
                    Some(Py::new(
                        py,
                        Table {
                            schema: failure_schema(),
                            batches: vec![batch],
                            errors: None,
                        },
                    )?)
                }
                None => None,
            };
            let batches = std::mem::take(&mut rows.batches).into();
            let table = Table {
                schema: rows.deals.schema().clone(),
                batches,
                errors,
            };
            Ok(Bound::new(py, table)?)
        })
    }
}

impl TableBuilder {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn push_documents(
        &mut self,
        documents: &[Cow<'_, [u8]>],
        unreadable: Unreadable,
    ) -> Result<Option<(usize, DecodeError)>> {
        for document in documents {
            let index = self.document_count;
            self.document_count += 1;
            // For example, the last line of a file is often blank.
            if document.trim_ascii().is_empty() {
                continue;
            }
            self.finish_batch_if_full(document.len())?;
            if let Err(error) = self.deals.push_json_with(document, unreadable) {
                match &mut self.failures {
                    Some(failures) => failures.push_document(index, &error),
                    None => return Ok(Some((index, error))),
                }
            }
        }
        Ok(None)
    }

    /// Adds a response. Returns the error if its body cannot be read.
    fn push_response(&mut self, response: &dealkit::RawResponse) -> Result<Option<Arc<Error>>> {
        let body = response.body();
        self.finish_batch_if_full(body.len())?;
        let skipped_fields = self.deals.push_json_with(body, response.unreadable());
        Ok(match skipped_fields {
            Ok(skipped) => {
                response.report_skipped(&skipped);
                self.finish_batch_if_full(0)?;
                None
            }
            Err(error) => Some(Arc::new(response.clone().into_decode_error(error))),
        })
    }

    /// Finishes the batch if it has all its rows, or if a document of this length would exceed the batch's size limit.
    fn finish_batch_if_full(&mut self, length: usize) -> Result<()> {
        if !self.deals.has_room_for(length) || self.deals.len() >= self.batch_size {
            self.finish_batch()?;
        }
        Ok(())
    }

    fn finish_batch(&mut self) -> Result<()> {
        if !self.deals.is_empty() {
            self.batches
                .push_back(self.deals.finish().map_err(arrow_failure)?);
        }
        Ok(())
    }
}
