//! Integers as JSON may write them.

use serde::Deserializer;

use super::{Decimal, exact::read_number};

/// Parses the text of a JSON number as an integer: `450000`, but also `450000.0` or `4.5e5`, which JSON considers equal
/// to it. `None` for a fraction, for a number that does not fit into 64 bits, and for anything that is not a number.
pub fn parse_integer(text: &str) -> Option<i64> {
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer);
    }
    text.parse::<Decimal>().ok()?.to_integer()
}

/// Decodes an integer from any serde format.
pub(crate) fn read_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    read_number(deserializer, "an integer of at most 64 bits", parse_integer)
}
