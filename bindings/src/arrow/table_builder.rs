//! Tables made from documents in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use dealkit::{
    DecodeError, Unreadable,
    arrow::{DealBatchBuilder, FailureBatchBuilder, failure_schema},
};
use pyo3::{prelude::*, types::PyList};

use crate::{
    arrow::table::{Table, decimals, failed},
    models::unreadable,
    python::{
        document::Document,
        failure::{Failure, Outcome, entry, into_python},
        gil,
    },
};

/// How many deals make up a batch if no size is given.
const BATCH_SIZE: usize = 65_536;

/// Fills a table with documents.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct TableBuilder(Mutex<Rows>);

struct Rows {
    deals: DealBatchBuilder,
    batches: Vec<RecordBatch>,
    failures: Option<FailureBatchBuilder>,
    /// How many documents there were, including blank ones.
    count: usize,
}

/// Begins a table of deals; `scale` is None for decimals as strings.
#[pyfunction]
#[pyo3(signature = (scale, returns_errors))]
pub(crate) fn open_table_builder(
    py: Python<'_>,
    scale: Option<u8>,
    returns_errors: bool,
) -> PyResult<Bound<'_, PyAny>> {
    entry(py, || {
        Ok(TableBuilder(Mutex::new(Rows {
            deals: DealBatchBuilder::new(decimals(scale)?),
            batches: Vec::new(),
            failures: returns_errors.then(FailureBatchBuilder::new),
            count: 0,
        })))
    })
}

#[pymethods]
impl TableBuilder {
    /// Adds documents, except for blank ones; optional fields that cannot be read may be skipped. If one cannot be read, and errors are not to be returned, returns its
    /// index and its failure.
    fn push<'py>(
        &self,
        documents: &Bound<'py, PyList>,
        skips: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let unreadable = unreadable::choice(skips);
        let py = documents.py();
        let objects = documents.iter().collect::<Vec<_>>();
        let documents = objects
            .iter()
            .map(Document::of)
            .collect::<Outcome<Vec<_>>>();
        let pushed = documents.and_then(|documents| {
            let bytes = documents.iter().map(Document::bytes).collect::<Vec<_>>();
            gil::release(py, || self.lock().push(&bytes, unreadable))
        });
        entry(py, || match pushed? {
            Some((index, error)) => {
                let failure = into_python(py, Err::<(), _>(Failure::Decode(error)))?;
                Ok(Some((index, failure)))
            }
            None => Ok(None),
        })
    }

    /// The table.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let mut rows = self.lock();
            rows.finish_batch()?;
            let errors = match &mut rows.failures {
                Some(failures) => {
                    let batch = failures.finish().map_err(failed)?;
                    Some(Py::new(py, Table::new(failure_schema(), vec![batch]))?)
                }
                None => None,
            };
            let batches = std::mem::take(&mut rows.batches);
            let table = Table::new(rows.deals.schema().clone(), batches).with_errors(errors);
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
        documents: &[&[u8]],
        unreadable: Unreadable,
    ) -> Outcome<Option<(usize, DecodeError)>> {
        for document in documents {
            let index = self.count;
            self.count += 1;
            // Such as the last line of a file.
            if document.trim_ascii().is_empty() {
                continue;
            }
            if !self.deals.has_room_for(document.len()) || self.deals.len() >= BATCH_SIZE {
                self.finish_batch()?;
            }
            if let Err(error) = self.deals.push_json_with(document, unreadable) {
                match &mut self.failures {
                    Some(failures) => failures.push_document(index, &error),
                    None => return Ok(Some((index, error))),
                }
            }
        }
        Ok(None)
    }

    fn finish_batch(&mut self) -> Outcome<()> {
        if !self.deals.is_empty() {
            self.batches.push(self.deals.finish().map_err(failed)?);
        }
        Ok(())
    }
}
