//! Exact decimal numbers.

use std::{fmt, str::FromStr};

use rust_decimal::prelude::ToPrimitive;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

/// An exact decimal number: what the specification calls `number`.
///
/// Value and scale are kept as they stand in the JSON text: `10.10` stays `10.10`. The number never goes
/// through a binary float, whatever features another crate has switched on in `serde_json`. Up to 28
/// digits; a number beyond that is an error, never rounded. Two decimals are equal when their values
/// are: `10.10 == 10.1`.
///
/// The specification does not say in what unit or scale a deal's money, percentage and split fields
/// are; a `Decimal` carries the digits and adds nothing.
///
/// It reads from and writes to JSON (through `serde_json`) only.
///
/// ```
/// use dealkit::Decimal;
///
/// let percent: Decimal = "10.10".parse()?;
/// assert_eq!(percent.to_string(), "10.10");
/// assert_eq!(serde_json::to_string(&percent)?, "10.10");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Decimal(rust_decimal::Decimal);

/// The text is not a decimal number, or has more digits than a [`Decimal`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a decimal number of at most 28 digits")]
pub struct ParseDecimalError;

impl Decimal {
    /// The value as `rust_decimal` holds it, for arithmetic.
    pub fn into_inner(self) -> rust_decimal::Decimal {
        self.0
    }

    /// Reads text that is known to be one JSON value; `None` if it is not a number or does not fit.
    pub(crate) fn from_json_number(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        match text.split_once(['e', 'E']) {
            // `from_str_exact` refuses what does not fit, where `from_str` would round.
            None => rust_decimal::Decimal::from_str_exact(text).ok(),
            Some((mantissa, exponent)) => scale(mantissa, exponent),
        }
        .map(Self)
    }

    /// The value as an integer, if it is one that 64 bits hold.
    pub fn to_integer(self) -> Option<i64> {
        self.0.is_integer().then(|| self.0.to_i64()).flatten()
    }
}

/// The longest text of a number that is looked at. No value that fits takes as much, unless it was written to
/// take time.
const LONGEST: usize = 1_000;

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    /// Reads the text of a JSON number.
    fn from_str(text: &str) -> Result<Self, ParseDecimalError> {
        // rust_decimal also takes forms that JSON does not (`1_000`, `+1`, `.5`); the shape is checked first.
        if !is_json_number(text) {
            return Err(ParseDecimalError);
        }
        Self::from_json_number(text).ok_or(ParseDecimalError)
    }
}

/// `mantissa * 10^exponent`, exactly or not at all.
fn scale(mantissa: &str, exponent: &str) -> Option<rust_decimal::Decimal> {
    let value = rust_decimal::Decimal::from_str_exact(mantissa).ok()?;
    if value.is_zero() {
        // Zero stays zero however far the point moves.
        return Some(value);
    }
    let exponent: i64 = exponent.parse().ok()?;
    let scale = i64::from(value.scale()).checked_sub(exponent)?;
    let mut mantissa = value.mantissa();
    if scale >= 0 {
        return rust_decimal::Decimal::try_from_i128_with_scale(
            mantissa,
            u32::try_from(scale).ok()?,
        )
        .ok();
    }
    // More than 28 places to the left cannot fit, so the loop is short.
    for _ in 0..u32::try_from(-scale).ok().filter(|places| *places <= 28)? {
        mantissa = mantissa.checked_mul(10)?;
    }
    rust_decimal::Decimal::try_from_i128_with_scale(mantissa, 0).ok()
}

fn is_json_number(text: &str) -> bool {
    // A JSON number is the one JSON value that begins with a minus sign or a digit.
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().len() == text.len())
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<rust_decimal::Decimal> for Decimal {
    fn from(value: rust_decimal::Decimal) -> Self {
        Self(value)
    }
}

impl From<Decimal> for rust_decimal::Decimal {
    fn from(value: Decimal) -> Self {
        value.0
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A raw value is the one way to hand serde_json digits that it does not touch.
        RawValue::from_string(self.to_string())
            .map_err(ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json_number(raw.get()).ok_or_else(|| de::Error::custom(ParseDecimalError))
    }
}
