//! Batches of deals, filled from documents or from models.

use std::sync::Arc;

use arrow_array::{
    RecordBatch,
    builder::{ArrayBuilder as _, StructBuilder},
};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::{
    columns::{Cell as _, columns},
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

/// The schema of a table of deals: a column for each field of a [`Deal`], in the order of the specification.
///
/// | in the model | in the table |
/// |---|---|
/// | identifiers, statuses and other strings | `utf8` |
/// | integers | `int64` |
/// | decimals | `decimal128(38, 10)`, `decimal128` with another scale, or `utf8`: see [`Decimals`] |
/// | dates | `date32` |
/// | timestamps | `timestamp(us, UTC)`: anything finer than microseconds is truncated, as in Python's `datetime` |
/// | models | a struct of their fields, null if absent |
/// | lists | a list of structs, empty if absent: neither the list nor an item is null |
/// | `metadata` | a map of strings, sorted by name, empty if absent |
/// | `extra` | in each struct: undocumented fields, and those that were [skipped](DealBatchBuilder::push_json_with), as one JSON object in a `utf8`, null if there are none |
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

/// Fills batches with deals, from JSON or from models.
///
/// An unreadable document is an error, and leaves the batch as it was.
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
/// // A number that the column cannot hold is an error, too: none is rounded.
/// let mut cents = DealBatchBuilder::new(Decimals::with_scale(2).unwrap());
/// let error = cents.push_json(r#"{"id": "d_1", "sides": [{"side_percentage": 33.3333}]}"#).unwrap_err();
/// assert_eq!(error.path(), "sides[0].side_percentage");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(
    feature = "client",
    doc = r#"
With the deals of a service, one of which may fail while the others stay:

```no_run
use dealkit::arrow::{DealBatchBuilder, Decimals, FailureBatchBuilder};

# async fn example(client: dealkit::Client) -> Result<(), Box<dyn std::error::Error>> {
let (mut deals, mut failures) = (DealBatchBuilder::new(Decimals::default()), FailureBatchBuilder::new());
let mut responses = client.deals().retrieve_many(["d_1", "d_2"]).raw_responses().stream();
while let Some(item) = responses.next().await {
    let read = item.result.and_then(|response| {
        deals.push_json(response.body()).map_err(|error| response.into_decode_error(error))
    });
    if let Err(error) = read {
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
    /// How many bytes of JSON the columns hold: no string in a column is longer than its text in the document.
    bytes: usize,
}

impl DealBatchBuilder {
    /// The maximum number of bytes of JSON in one batch: Arrow counts the bytes of strings with 31 bits.
    pub const MAX_BYTES: usize = i32::MAX as usize;

    /// An empty builder.
    pub fn new(decimals: Decimals) -> Self {
        let schema = schema(decimals);
        Self {
            decimals,
            columns: StructBuilder::from_fields(schema.fields().clone(), 0),
            schema,
            bytes: 0,
        }
    }

    /// The [`schema`] of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of deals in the batch that is being filled.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a document of this many bytes still fits into the batch. If not, finish the batch first.
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

    /// Adds the deal of a JSON document, and lets you choose what to do about unreadable optional fields. A skipped
    /// field is null or empty, with the original in the column `extra` of its struct. Returns the skipped fields.
    ///
    /// # Errors
    /// As for [`push_json`](Self::push_json), except for what is skipped. A number that its column cannot hold is not.
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
        self.check_room(body)?;
        let deal = Deal::from_json_with(body, unreadable)?;
        self.add(&deal, body)?;
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
        self.check_room(&body)?;
        self.add(deal, &body)
    }

    /// Takes the deals out as one batch.
    ///
    /// # Errors
    /// None that is known: what the columns hold always fits. Arrow's constructor checks it once more.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.bytes = 0;
        let (_, columns, _) = self.columns.finish().into_parts();
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }

    fn check_room(&self, body: &[u8]) -> Result<(), DecodeError> {
        if self.has_room_for(body.len()) {
            Ok(())
        } else {
            Err(DecodeError::for_document(Reason::BatchIsFull, body))
        }
    }

    /// Adds the deal of this document, unless a number does not fit.
    fn add(&mut self, deal: &Deal, body: &[u8]) -> Result<(), DecodeError> {
        if let Some(mut path) = deal.misfit(self.decimals) {
            path.reverse();
            let reason = Reason::ColumnOverflow(self.decimals.to_string());
            return Err(DecodeError::new(&path, reason, body));
        }
        Deal::add(Some(deal), &mut self.columns, self.decimals);
        self.bytes += body.len();
        Ok(())
    }
}

opaque_debug!(DealBatchBuilder);
