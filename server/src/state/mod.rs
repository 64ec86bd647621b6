//! State of a server: created agents, stored deals, and the sources of the initial deals.

pub(crate) mod agent;
pub(crate) mod deals_file;
pub mod generate;
pub(crate) mod memory_budget;
pub(crate) mod seed;
pub(crate) mod split_mix;
pub(crate) mod store;
