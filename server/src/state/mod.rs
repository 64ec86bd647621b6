//! What a server holds: agents, deals, and where its deals come from.

pub(crate) mod agent;
pub mod generate;
pub(crate) mod room;
pub(crate) mod seed;
pub(crate) mod split_mix;
pub(crate) mod store;
