//! Tables in memory. Arrow's PyCapsule interface shares them with other libraries, without a common dependency.

use arrow_array::{RecordBatch, RecordBatchIterator, ffi_stream::FFI_ArrowArrayStream};
use arrow_schema::{ArrowError, SchemaRef, ffi::FFI_ArrowSchema};
use dealkit::arrow::{self, Decimals};
use pyo3::{prelude::*, types::PyCapsule};

use crate::python::failure::{EntryResult, Failure, Result, run_entry};

/// The columns of a table of deals. ``print`` lists them.
#[pyclass(frozen, module = "dealkit.arrow")]
pub(crate) struct Schema(SchemaRef);

/// A table of deals, or of deals that failed, in memory.
///
/// Libraries read it through Arrow's PyCapsule interface, without a copy: ``polars.DataFrame(table)``,
/// ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``. ``len(table)`` is the number of rows.
#[pyclass(frozen, module = "dealkit.arrow")]
pub(crate) struct Table {
    pub(super) schema: SchemaRef,
    pub(super) batches: Vec<RecordBatch>,
    pub(super) errors: Option<Py<Table>>,
}

/// Converts an Arrow error. No such error is known to occur.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn arrow_failure(error: ArrowError) -> Failure {
    Failure::Runtime(format!("the table cannot be made: {error}"))
}

/// Returns the column type of decimals: with `scale` digits after the point, or strings if `scale` is `None`.
pub(crate) fn decimals_with_scale(scale: Option<u8>) -> Result<Decimals> {
    let Some(scale) = scale else {
        return Ok(Decimals::STRINGS);
    };
    Decimals::with_scale(scale).ok_or_else(|| {
        let max_scale = Decimals::PRECISION;
        Failure::Value(format!("scale must be from 0 to {max_scale}, not {scale}"))
    })
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> Result<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(&**schema).map_err(arrow_failure)?;
    Ok(PyCapsule::new_with_value(py, schema, c"arrow_schema")?)
}

/// The columns of a table of deals.
#[pyfunction]
#[pyo3(signature = (scale))]
pub(crate) fn deal_schema(py: Python<'_>, scale: Option<u8>) -> EntryResult<'_> {
    run_entry(py, || {
        Ok(Schema(arrow::schema(decimals_with_scale(scale)?)))
    })
}

#[pymethods]
impl Schema {
    /// The names of the columns.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let fields = self.0.fields().iter();
        let names = fields.map(|field| field.name().as_str());
        run_entry(py, || Ok(names.collect::<Vec<_>>()))
    }

    /// Exports the schema as an Arrow schema (PyCapsule).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || schema_capsule(py, &self.0))
    }

    fn __repr__(&self) -> String {
        let lines = self.0.fields().iter().map(|field| {
            let null = if field.is_nullable() { "" } else { " not null" };
            format!("{}: {}{null}", field.name(), field.data_type())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[pymethods]
impl Table {
    /// A table of the deals that failed; None unless ``on_error="return"`` was given.
    #[getter]
    fn errors(&self, py: Python<'_>) -> Option<Py<Table>> {
        self.errors.as_ref().map(|errors| errors.clone_ref(py))
    }

    /// The columns.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || Ok(Schema(self.schema.clone())))
    }

    /// Exports the schema as an Arrow schema (PyCapsule).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || schema_capsule(py, &self.schema))
    }

    /// Exports the rows as an Arrow stream (PyCapsule). Ignores the requested schema: the caller must cast.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> EntryResult<'py> {
        let _ = requested_schema;
        run_entry(py, || {
            let batches = self.batches.clone().into_iter().map(Ok);
            let batches = RecordBatchIterator::new(batches, self.schema.clone());
            let stream = FFI_ArrowArrayStream::new(Box::new(batches));
            let name = c"arrow_array_stream";
            Ok(PyCapsule::new_with_value(py, stream, name)?)
        })
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!(
            "Table({} rows, {} columns)",
            self.__len__(),
            self.schema.fields().len()
        )
    }
}
