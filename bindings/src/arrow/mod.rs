//! Arrow tables of deals, which other libraries read through Arrow's C interface.

pub(crate) mod table;
pub(crate) mod table_builder;
