//! Many calls at a time, as deals, as creations or as a table; and the ledger between two jobs.

pub(crate) mod deal_stream;
pub(crate) mod ledger;
pub(crate) mod many;
pub(crate) mod unsent_ids;
