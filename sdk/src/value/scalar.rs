//! How single values of a response are parsed and formatted, for bindings to other languages: they
//! build objects of their own but must not have rules of their own.

use crate::value::Decimal;

pub use super::datetime::{
    format_date as date_text, format_timestamp as timestamp_text, parse_date as date,
    parse_timestamp as timestamp,
};

/// Parses text that is known to be one JSON number as an integer: `450000`, but also `450000.0` or `4.5e5`, which JSON
/// considers equal to it. `None` for a fraction, and for a number that does not fit into 64 bits.
pub fn integer(text: &str) -> Option<i64> {
    decimal(text)?.to_integer()
}

/// Parses text that is known to be one JSON number; `None` if it has more digits than a [`Decimal`] holds.
pub fn decimal(text: &str) -> Option<Decimal> {
    Decimal::from_json_number(text)
}
