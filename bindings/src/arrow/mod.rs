//! Tables, handed over through Arrow's C interface.

pub(crate) mod table;
pub(crate) mod table_builder;
