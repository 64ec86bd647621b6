//! The sink of `retrieve_many` that makes a table: deals are read into columns, without the GIL, and handed over as batches.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::Arc,
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dealkit::{
    Error,
    arrow::{DealBatchBuilder, FailureBatchBuilder},
};

use crate::{
    arrow::table::{Table, decimals},
    python::failure::{self, Outcome},
};

/// How a table is made: how many calls are in flight, how many deals make up a batch, the scale of decimals (None for
/// strings), whether errors become rows of a table of their own, and whether the work is done on a thread of its own. This
/// is needed if the consumer of the batches may hold the GIL, since the background thread may wait for the GIL.
pub(crate) type TableOptions = (usize, usize, Option<u8>, bool, bool);

/// A call that has ended: its index, and the error.
type Ended = (usize, Option<Arc<Error>>);

/// What has come of a table.
pub(super) struct Columns {
    pub(super) schema: SchemaRef,
    pub(super) concurrency: usize,
    pub(super) batch_size: usize,
    /// Whether Python code is to push more identifiers, because only a few are left to send.
    pub(super) wants_ids: bool,
    pub(super) batches: VecDeque<RecordBatch>,
    /// How many deals have come that have not been reported to Python code.
    come: usize,
    /// How many calls were sent, and the indexes of those in progress that are watched.
    sent: usize,
    watched: HashSet<usize>,
    /// The watched calls that have ended.
    ended: Vec<Ended>,
    failures: Option<FailureBatchBuilder>,
    /// The failures, once everything has ended.
    errors: Option<RecordBatch>,
    pub(super) end: End,
}

/// How a table has ended.
#[derive(Clone)]
pub(super) enum End {
    /// With the last deal.
    Whole,
    /// With the first deal that failed: its index and identifier.
    Failed(usize, String, Arc<Error>),
    /// With an Arrow error.
    Broken(String),
    /// Before the last deal, because nobody wants more.
    Cancelled,
}

impl Columns {
    /// What is handed over, and the builder that reads deals.
    pub(super) fn new(options: TableOptions) -> Outcome<(Self, DealBatchBuilder)> {
        let (concurrency, batch_size, scale, returns_errors, _) = options;
        let builder = DealBatchBuilder::new(decimals(scale)?);
        let columns = Self {
            schema: Arc::clone(builder.schema()),
            concurrency: concurrency.max(1),
            batch_size: batch_size.max(1),
            wants_ids: true,
            batches: VecDeque::new(),
            come: 0,
            sent: 0,
            watched: HashSet::new(),
            ended: Vec::new(),
            failures: returns_errors.then(FailureBatchBuilder::new),
            errors: None,
            end: End::Cancelled,
        };
        Ok((columns, builder))
    }

    /// Notes how many identifiers are left to send; returns whether more are newly wanted.
    pub(super) fn note_unsent(&mut self, unsent: usize, is_last: bool) -> bool {
        let wants_ids = !is_last && unsent < self.concurrency;
        let is_new = wants_ids && !self.wants_ids;
        self.wants_ids = wants_ids;
        is_new
    }

    /// Whether one more call may be made beside those in flight. While a batch waits, only one more is filled: nothing piles
    /// up.
    pub(super) fn has_room(&self, in_flight: usize, in_batch: usize) -> bool {
        in_flight < self.concurrency
            && (self.batches.is_empty() || in_batch + in_flight < self.batch_size)
    }

    /// Notes that a call is sent.
    pub(super) fn sends(&mut self, is_watched: bool) {
        if is_watched {
            self.watched.insert(self.sent);
        }
        self.sent += 1;
    }

    /// Records that no more deals will come.
    pub(super) fn end(&mut self) {
        let errors = self.failures.take().map(|mut failures| failures.finish());
        match errors.transpose() {
            Ok(errors) => self.errors = errors,
            Err(error) => self.end = End::Broken(error.to_string()),
        }
    }

    /// Takes a deal that has come, with its error if it could not be read.
    pub(super) fn take(
        &mut self,
        index: usize,
        id: String,
        error: Option<Arc<Error>>,
    ) -> Result<(), End> {
        self.come += 1;
        if self.watched.remove(&index) {
            self.ended.push((index, error.clone()));
        }
        match (error, &mut self.failures) {
            (None, _) => {}
            (Some(error), None) => return Err(End::Failed(index, id, error)),
            (Some(error), Some(failures)) => {
                failures.push_with_message(index, &id, &error, &failure::text(&error));
            }
        }
        Ok(())
    }

    /// How many deals have come, whether more identifiers are wanted, and the watched calls that have ended. Nothing is
    /// reported twice.
    pub(super) fn news(&mut self) -> (usize, bool, Vec<Ended>) {
        let come = mem::take(&mut self.come);
        (come, self.wants_ids, mem::take(&mut self.ended))
    }

    /// The failures as a table, if they are to be returned and all deals have come.
    pub(super) fn table_of_errors(&self) -> Option<Table> {
        let errors = self.errors.clone()?;
        Some(Table::new(errors.schema(), vec![errors]))
    }
}
