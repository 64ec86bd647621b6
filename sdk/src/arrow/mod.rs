//! Deals as tables of [Apache Arrow](https://arrow.apache.org): exact, with one documented schema, for any program that
//! reads Arrow (Parquet writers, DataFusion, Polars, DuckDB, …).
//!
//! * [`schema`]: the columns, derived from the same table as [`Deal`](crate::Deal).
//! * [`DealBatchBuilder`]: converts JSON or models into columns, in batches.
//! * [`FailureBatchBuilder`]: a table of the deals that failed.
//! * [`Decimals`]: the column type of decimal numbers, which are never rounded.

mod columns;
mod deal_batch;
mod decimals;
mod failure_batch;

/// The crate of `RecordBatch`, which the builders produce, in the version that dealkit uses.
pub use arrow_array;
/// The crate of the schemas, in the version that dealkit uses.
pub use arrow_schema;

pub use deal_batch::{DealBatchBuilder, schema};
pub use decimals::Decimals;
pub use failure_batch::{FailureBatchBuilder, failure_schema};
