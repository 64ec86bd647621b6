//! Batches of deals, filled from documents or from models.

use std::sync::Arc;

use arrow_array::{
    RecordBatch,
    builder::{ArrayBuilder as _, StructBuilder},
};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::{
    columns::{ColumnValue as _, columns},
    decimals::Decimals,
};
use crate::{
    json::{
        decode_error::{DecodeError, Reason},
        unreadable::{Unreadable, UnreadableField},
    },
    model::Deal,
    value::opaque_debug,
};

/// Returns the schema of a table of deals: a column for each field of a [`Deal`], in the specification's order.
///
/// | in the model | in the table |
/// |---|---|
/// | identifiers, statuses and other strings | `utf8` |
/// | integers | `int64` |
/// | decimals | `decimal128(38, 10)`, another scale, or `utf8`: see [`Decimals`] |
/// | dates | `date32` |
/// | timestamps | `timestamp(us, UTC)`, truncated to microseconds, as in Python's `datetime` |
/// | models | a struct of their fields, null if absent |
/// | lists | a list of structs, empty if absent; lists and items are never null |
/// | `metadata` | a map of strings, sorted by name, empty if absent |
/// | `extra` | in each struct, a JSON object (`utf8`) with the undocumented and the [skipped](DealBatchBuilder::push_json_with) fields, or null |
///
/// ```
/// use dealkit::arrow::{self, Decimals};
///
/// let schema = arrow::schema(Decimals::default());
/// assert_eq!(schema.field(0).name(), "id");
/// assert_eq!(schema.field_with_name("expiry_date").unwrap().data_type().to_string(), "Date32");
/// ```
pub fn schema(decimals: Decimals) -> SchemaRef {
    Arc::new(Schema::new(columns(Deal::SCHEMA, decimals)))
}

/// Builder of batches of deals, from JSON or from models.
///
/// An unreadable document is an error, and leaves the batch unchanged.
///
/// ```
/// use dealkit::arrow::{Decimals, DealBatchBuilder};
///
/// let mut builder = DealBatchBuilder::new(Decimals::default());
/// builder.push_json(r#"{"id": "d_1", "sides": [{"side_percentage": 10.10}]}"#)?;
/// assert!(builder.push_json(r#"{"id": 2}"#).is_err());
/// let batch = builder.finish()?; // a RecordBatch; the builder begins the next
/// assert_eq!(batch.num_rows(), 1);
///
/// // A number that the column cannot hold is an error, because numbers are never rounded.
/// let mut cents = DealBatchBuilder::new(Decimals::with_scale(2).unwrap());
/// let error = cents.push_json(r#"{"id": "d_1", "sides": [{"side_percentage": 33.3333}]}"#).unwrap_err();
/// assert_eq!(error.path(), "sides[0].side_percentage");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(
    feature = "client",
    doc = r#"
Deals that a service returns; a deal that fails goes into a table of failures:

```no_run
use dealkit::arrow::{DealBatchBuilder, Decimals, FailureBatchBuilder};

# async fn example(client: dealkit::Client) -> Result<(), Box<dyn std::error::Error>> {
let (mut deals, mut failures) = (DealBatchBuilder::new(Decimals::default()), FailureBatchBuilder::new());
let mut responses = client.deals().retrieve_many(["d_1", "d_2"]).raw_responses().stream();
while let Some(item) = responses.next().await {
    let result = item.result.and_then(|response| {
        deals.push_json(response.body()).map_err(|error| response.into_decode_error(error))
    });
    if let Err(error) = result {
        failures.push(item.index, &item.id, &error);
    }
    if deals.len() == 10_000 {
        let batch = deals.finish()?; // to a Parquet writer, say
    }
}
# Ok(()) }
```
"#
)]
pub struct DealBatchBuilder {
    decimals: Decimals,
    schema: SchemaRef,
    columns: StructBuilder,
    /// The size of the batch's documents: an upper limit for the strings in any column.
    bytes: usize,
}

impl DealBatchBuilder {
    /// The maximum number of bytes of JSON in one batch, because Arrow addresses the bytes of a string column with 31 bits.
    pub const MAX_BYTES: usize = i32::MAX as usize;

    /// Creates an empty builder.
    pub fn new(decimals: Decimals) -> Self {
        let schema = schema(decimals);
        Self {
            decimals,
            columns: StructBuilder::from_fields(schema.fields().clone(), 0),
            schema,
            bytes: 0,
        }
    }

    /// Returns the [`schema`] of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of deals in the current batch.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether the current batch has no deals.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether a document of this many bytes fits into the current batch. If not, finish the batch first.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes
            .checked_add(bytes)
            .is_some_and(|sum| sum <= Self::MAX_BYTES)
    }

    /// Adds the deal of a JSON document.
    ///
    /// # Errors
    /// As for [`Deal::from_json`]; also if a decimal has more digits than its column can hold, or if the batch has
    /// no [room](Self::has_room_for) left.
    pub fn push_json(&mut self, body: impl AsRef<[u8]>) -> Result<(), DecodeError> {
        self.push_json_with(body, Unreadable::Error).map(drop)
    }

    /// Adds the deal of a JSON document, and can skip optional fields that cannot be read. A skipped field is null or empty,
    /// and its original JSON is in the column `extra` of its struct. Returns the skipped fields.
    ///
    /// # Errors
    /// As for [`push_json`](Self::push_json), except for skipped fields. A number that its column cannot hold is not skipped.
    ///
    /// ```
    /// use dealkit::{Unreadable, arrow::{DealBatchBuilder, Decimals, arrow_array::cast::AsArray}};
    ///
    /// let mut builder = DealBatchBuilder::new(Decimals::default());
    /// let skipped = builder.push_json_with(r#"{"id": "d_1", "expiry_date": "31.12.2026"}"#, Unreadable::Skip)?;
    /// assert_eq!(skipped[0].pointer, "/expiry_date");
    /// let batch = builder.finish()?;
    /// assert!(batch["expiry_date"].is_null(0));
    /// assert_eq!(batch["extra"].as_string::<i32>().value(0), r#"{"expiry_date":"31.12.2026"}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_json_with(
        &mut self,
        body: impl AsRef<[u8]>,
        unreadable: Unreadable,
    ) -> Result<Vec<UnreadableField>, DecodeError> {
        let body = body.as_ref();
        self.check_fits(body)?;
        let deal = Deal::from_json_with(body, unreadable)?;
        self.append_deal(&deal, body)?;
        Ok(match unreadable {
            Unreadable::Error => Vec::new(),
            Unreadable::Skip => deal.unreadable(),
        })
    }

    /// Adds a deal.
    ///
    /// # Errors
    /// If a decimal has more digits than its column can hold, or if the batch has no [room](Self::has_room_for) left.
    pub fn push(&mut self, deal: &Deal) -> Result<(), DecodeError> {
        // Serializing a model cannot fail.
        let body = serde_json::to_vec(deal).unwrap_or_default();
        self.check_fits(&body)?;
        self.append_deal(deal, &body)
    }

    /// Returns the deals as one batch, and begins the next batch.
    ///
    /// # Errors
    /// Arrow's constructor checks the columns, but no error is known to be possible.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.bytes = 0;
        let (_, columns, _) = self.columns.finish().into_parts();
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }

    fn check_fits(&self, body: &[u8]) -> Result<(), DecodeError> {
        if self.has_room_for(body.len()) {
            Ok(())
        } else {
            Err(DecodeError::for_document(Reason::BatchIsFull, body))
        }
    }

    /// Adds the deal of a document, unless a column cannot hold a number of the deal.
    fn append_deal(&mut self, deal: &Deal, body: &[u8]) -> Result<(), DecodeError> {
        if let Some(mut path) = deal.find_overflow(self.decimals) {
            path.reverse();
            let reason = Reason::ColumnOverflow(self.decimals.to_string());
            return Err(DecodeError::new(&path, reason, body));
        }
        Deal::append_to(Some(deal), &mut self.columns, self.decimals);
        self.bytes += body.len();
        Ok(())
    }
}

opaque_debug!(DealBatchBuilder);
