//! Exact decimal numbers.

use std::{fmt, str::FromStr};

use rust_decimal::prelude::ToPrimitive;
use serde_json::value::RawValue;

/// An exact decimal number: the specification's `number`.
///
/// Value and scale are the same as in the JSON text: `10.10` stays `10.10`. A number in a document never passes through a
/// binary float, regardless of the features of `serde_json` that other crates enable. A decimal has up to 28 digits; a number
/// with more digits is an error, and is never rounded. Decimals with the same value are equal: `10.10 == 10.1`.
///
/// The specification does not define the unit or scale of a deal's money, percentage and split fields; a `Decimal` holds
/// only the digits.
///
/// # Arithmetic
///
/// Decimals have `+`, `-`, `*`, `/`, `%`, negation and sums, and compare with each other and with integers. Sums,
/// differences and products are exact if 28 digits can hold them. Otherwise, and if a division does not terminate, the
/// last digit is rounded as in `rust_decimal`. Like the operators of `std`'s integers, these panic if the result is too
/// large or the divisor is zero. For other operations (checked arithmetic, rounding to cents, powers) use
/// [`rust_decimal::Decimal`]: convert with [`into_inner`](Self::into_inner), and back with `from`.
///
/// ```
/// use dealkit::Decimal;
///
/// let splits: [Decimal; 2] = ["10.10".parse()?, Decimal::new(4990, 2)]; // 49.90
/// let total: Decimal = splits.iter().sum();
/// assert_eq!(total.to_string(), "60.00");
/// assert!(total == 60 && total < 100);
/// assert_eq!(Decimal::from(450_000) * total / Decimal::from(100), 270_000);
///
/// use dealkit::rust_decimal::RoundingStrategy;
/// let third = Decimal::from(10) / Decimal::from(3);
/// let cents = third.into_inner().round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero);
/// assert_eq!(Decimal::from(cents).to_string(), "3.33");
/// # Ok::<(), dealkit::ParseDecimalError>(())
/// ```
///
/// # In JSON and other formats
///
/// Directly through `serde_json`, a decimal is written and read as a number with every digit. In other formats it is written as
/// a string; in a `serde_json::Value` it is a number if the `Value` can hold it exactly. A decimal can be read from a string,
/// an integer, or a float of at most 15 significant digits. A float with more digits is an error, because it may have been
/// rounded.
///
/// ```
/// use dealkit::Decimal;
///
/// let percent: Decimal = serde_json::from_str("10.10")?;
/// assert_eq!(percent.to_string(), "10.10");
/// assert_eq!(serde_json::to_string(&percent)?, "10.10");
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Rounding by another reader cannot always be detected: through `flatten`, serde reads 0.30000000000000001 as the float
/// 0.3, which a `Decimal` accepts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[doc(alias("money", "float", "f64"))]
pub struct Decimal(rust_decimal::Decimal);

/// Error of parsing a string that is not a decimal number, or has more digits than a [`Decimal`] can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a decimal number of at most 28 digits")]
pub struct ParseDecimalError;

impl Decimal {
    /// Creates `mantissa / 10^scale`, with `scale` digits after the point: `Decimal::new(1010, 2)` is 10.10.
    ///
    /// # Panics
    /// If `scale` is more than 28. To handle that case, use `rust_decimal::Decimal::try_new` and convert its result.
    pub fn new(mantissa: i64, scale: u32) -> Self {
        Self(rust_decimal::Decimal::new(mantissa, scale))
    }

    /// Returns the number as a `rust_decimal::Decimal`, which has more operations.
    pub fn into_inner(self) -> rust_decimal::Decimal {
        self.0
    }

    /// Parses a valid JSON value; `None` if the value is not a number, or if a decimal cannot hold the number exactly.
    pub(crate) fn from_json_number(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        match text.split_once(['e', 'E']) {
            // `from_str_exact` rejects a number that does not fit, whereas `from_str` would round it.
            None => rust_decimal::Decimal::from_str_exact(text).ok(),
            Some((mantissa, exponent)) => apply_exponent(mantissa, exponent),
        }
        .map(Self)
    }

    /// Returns the number as an integer, or `None` if it has a fraction or does not fit into 64 bits.
    pub fn to_integer(self) -> Option<i64> {
        self.0.is_integer().then(|| self.0.to_i64()).flatten()
    }
}

/// The maximum length of a number's text, in bytes. A longer text serves only to waste time, and is rejected unread.
const MAX_LENGTH: usize = 1_000;

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    /// Parses a JSON number.
    fn from_str(text: &str) -> Result<Self, ParseDecimalError> {
        // Check the JSON syntax first, because rust_decimal also accepts `1_000`, `+1` and `.5`.
        serde_json::from_str::<&RawValue>(text)
            .ok()
            .filter(|json| json.get().len() == text.len())
            .and_then(|_| Self::from_json_number(text))
            .ok_or(ParseDecimalError)
    }
}

/// Computes `mantissa * 10^exponent`; `None` if the result cannot be held exactly.
fn apply_exponent(mantissa: &str, exponent: &str) -> Option<rust_decimal::Decimal> {
    let value = rust_decimal::Decimal::from_str_exact(mantissa).ok()?;
    let exponent = exponent.parse::<i64>().ok();
    let scale = exponent.and_then(|exponent| i64::from(value.scale()).checked_sub(exponent));
    if value.is_zero() {
        // Zero can be represented with any exponent. Keep the scale if possible: Python writes `0.0000000` as `0E-7`, which must
        // be read with 7 decimal places again.
        let scale = scale.and_then(|scale| u32::try_from(scale).ok());
        let scale = scale.filter(|scale| *scale <= rust_decimal::Decimal::MAX_SCALE);
        return Some(scale.map_or(value, |scale| rust_decimal::Decimal::new(0, scale)));
    }
    let scale = scale?;
    let mut mantissa = value.mantissa();
    if scale >= 0 {
        return rust_decimal::Decimal::try_from_i128_with_scale(
            mantissa,
            u32::try_from(scale).ok()?,
        )
        .ok();
    }
    // The loop is short: more than 28 additional digits cannot fit.
    for _ in 0..u32::try_from(-scale).ok().filter(|digits| *digits <= 28)? {
        mantissa = mantissa.checked_mul(10)?;
    }
    rust_decimal::Decimal::try_from_i128_with_scale(mantissa, 0).ok()
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
