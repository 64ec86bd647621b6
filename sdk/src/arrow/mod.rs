//! Deals as tables of [Apache Arrow](https://arrow.apache.org): exact, with one documented schema, for anything that
//! reads Arrow (Parquet writers, DataFusion, Polars, DuckDB, …).
//!
//! * [`schema`]: the columns, derived from the same table as [`Deal`](crate::Deal).
//! * [`DealBatchBuilder`]: JSON or models into columns, a batch at a time.
//! * [`FailureBatchBuilder`]: the deals that failed, as a table of their own.
//! * [`Decimals`]: how decimal numbers are represented in the table. None is ever rounded.

mod builder;
mod columns;
mod decimals;
mod failures;

/// The crate whose `RecordBatch` the builders produce, in the version that dealkit uses.
pub use arrow_array;
/// The crate of the schemas, in the version that dealkit uses.
pub use arrow_schema;

pub use builder::{DealBatchBuilder, schema};
pub use decimals::Decimals;
pub use failures::{FailureBatchBuilder, failure_schema};
