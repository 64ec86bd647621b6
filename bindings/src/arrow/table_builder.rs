//! Tables made from documents in memory, and from what comes back from many calls.

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
    arrow::table::{Table, decimals, failed},
    models::response::RawResponse,
    python::{
        arguments::{document, unreadable},
        failure::{self, Failure, NativeFailure, Outcome, Returned, entry, into_python},
        gil,
    },
};

/// A body that takes longer than a moment is read without the GIL.
const LARGE: usize = 64 * 1024;

/// Fills a table with deals.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct TableBuilder(Mutex<Rows>);

struct Rows {
    deals: DealBatchBuilder,
    batch_size: usize,
    batches: VecDeque<RecordBatch>,
    failures: Option<FailureBatchBuilder>,
    /// How many documents there were, including blank ones.
    count: usize,
}

/// Begins a table of deals; `scale` is None for decimals as strings.
#[pyfunction]
#[pyo3(signature = (scale, returns_errors, batch_size))]
pub(crate) fn open_table_builder(
    py: Python<'_>,
    scale: Option<u8>,
    returns_errors: bool,
    batch_size: usize,
) -> Returned<'_> {
    entry(py, || {
        Ok(TableBuilder(Mutex::new(Rows {
            deals: DealBatchBuilder::new(decimals(scale)?),
            batch_size,
            batches: VecDeque::new(),
            failures: returns_errors.then(FailureBatchBuilder::new),
            count: 0,
        })))
    })
}

#[pymethods]
impl TableBuilder {
    /// Adds documents, except for blank ones. If one cannot be read, and errors are not to be returned, returns its index and
    /// its failure.
    fn push<'py>(
        &self,
        documents: &Bound<'py, PyList>,
        on_unreadable: &Bound<'py, PyAny>,
    ) -> Returned<'py> {
        let py = documents.py();
        let objects = documents.iter().collect::<Vec<_>>();
        let documents = objects.iter().map(document).collect::<Outcome<Vec<_>>>();
        let pushed = documents.and_then(|documents| {
            let unreadable = unreadable(on_unreadable)?;
            gil::release(py, || self.lock().push(&documents, unreadable))
        });
        entry(py, || match pushed? {
            Some((index, error)) => {
                let failure = into_python(py, Err::<(), _>(Failure::Decode(error)))?;
                Ok(Some((index, failure)))
            }
            None => Ok(None),
        })
    }

    /// Adds a result of `retrieve_many`: a whole response, or the failure of the deal with this index and identifier. Returns
    /// the failure, also of a response that cannot be read.
    fn add<'py>(&self, index: usize, id: &str, result: &Bound<'py, PyAny>) -> Returned<'py> {
        let py = result.py();
        let response = result.cast::<RawResponse>().map(Bound::get);
        let read = match response {
            Ok(RawResponse { response, .. }) => {
                let read = || self.lock().read(response);
                match response.body().len() {
                    ..LARGE => read(),
                    _ => gil::release(py, read),
                }
            }
            Err(_) => result
                .cast::<NativeFailure>()
                .map_err(PyErr::from)
                .map_err(Failure::from)
                .map(|failure| failure.get().error()),
        };
        entry(py, || {
            let Some(error) = read? else {
                return Ok(None);
            };
            if let Some(failures) = &mut self.lock().failures {
                failures.push_with_message(index, id, &error, &failure::text(&error));
            }
            Ok(Some(into_python(py, Err::<(), _>(Failure::Error(error)))?))
        })
    }

    fn batch<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || {
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

    /// The table of all batches that were not taken, with the errors.
    fn finish<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || {
            let mut rows = self.lock();
            rows.finish_batch()?;
            let errors = match &mut rows.failures {
                Some(failures) => {
                    let batch = failures.finish().map_err(failed)?;
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
    fn push(
        &mut self,
        documents: &[Cow<'_, [u8]>],
        unreadable: Unreadable,
    ) -> Outcome<Option<(usize, DecodeError)>> {
        for document in documents {
            let index = self.count;
            self.count += 1;
            // Such as the last line of a file.
            if document.trim_ascii().is_empty() {
                continue;
            }
            self.make_room(document.len())?;
            if let Err(error) = self.deals.push_json_with(document, unreadable) {
                match &mut self.failures {
                    Some(failures) => failures.push_document(index, &error),
                    None => return Ok(Some((index, error))),
                }
            }
        }
        Ok(None)
    }

    /// Reads a response; returns the error if it cannot be read.
    fn read(&mut self, response: &dealkit::RawResponse) -> Outcome<Option<Arc<Error>>> {
        let body = response.body();
        self.make_room(body.len())?;
        let read = self.deals.push_json_with(body, response.unreadable());
        Ok(match read {
            Ok(skipped) => {
                response.report_skipped(&skipped);
                self.make_room(0)?;
                None
            }
            Err(error) => Some(Arc::new(response.clone().into_decode_error(error))),
        })
    }

    /// Finishes the batch if it is full, or has no room for a document of this length.
    fn make_room(&mut self, length: usize) -> Outcome<()> {
        if !self.deals.has_room_for(length) || self.deals.len() >= self.batch_size {
            self.finish_batch()?;
        }
        Ok(())
    }

    fn finish_batch(&mut self) -> Outcome<()> {
        if !self.deals.is_empty() {
            self.batches.push_back(self.deals.finish().map_err(failed)?);
        }
        Ok(())
    }
}
