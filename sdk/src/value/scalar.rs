//! Parsing and formatting of single values of a response, for bindings to other languages: they build their own objects, but
//! parse by the same rules.

use crate::value::Decimal;

pub use super::datetime::{format_date, format_timestamp, parse_date, parse_timestamp};

/// Parses a valid JSON number as an integer: `450000`, and also `450000.0` or `4.5e5`, which have the same value. `None` for
/// a number that has a fraction or does not fit into 64 bits.
pub fn parse_integer(text: &str) -> Option<i64> {
    parse_decimal(text)?.to_integer()
}

/// Parses a valid JSON number; `None` if it has more digits than a [`Decimal`] can hold.
pub fn parse_decimal(text: &str) -> Option<Decimal> {
    Decimal::from_json_number(text)
}
