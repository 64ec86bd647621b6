//! Exact decimal numbers.

use std::{fmt, str::FromStr};

use rust_decimal::prelude::ToPrimitive;
use serde_json::value::RawValue;

/// An exact decimal number: the specification's `number`.
///
/// Value and scale are kept as in the JSON text: `10.10` stays `10.10`. A number in a document never passes through
/// a binary float, whatever features of `serde_json` another crate enables. It has up to 28 digits; a number beyond
/// that is an error, and is never rounded. Two decimals are equal if their values are: `10.10 == 10.1`.
///
/// The specification does not define the unit or scale of a deal's money, percentage and split fields; a `Decimal` has
/// just the digits.
///
/// # Arithmetic
///
/// `+`, `-`, `*`, `/`, `%`, negation, sums, and comparison with each other and with integers. Sums, differences and
/// products are exact as long as 28 digits can hold them; beyond that, and if a division does not terminate, the last
/// digit is rounded as in `rust_decimal`. Like those of `std`'s integers, the operators panic if the result is too
/// large or the divisor is zero. For anything else (forms that return `None` instead, rounding to cents, powers) use
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
/// Directly through `serde_json`, every digit is written and read, as a number. Everywhere else a decimal is written as a
/// string (in a `serde_json::Value` as a number where it is the same number), and read from a string, an integer, or a
/// float of at most 15 significant digits: with more, the original number is unknown, which is an error that says so.
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
/// A reader that has rounded beforehand cannot be detected: a document with 0.30000000000000001, which is the same float as
/// 0.3, reads as 0.3 through `flatten`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Decimal(rust_decimal::Decimal);

/// The text is not a decimal number, or has more digits than a [`Decimal`] can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a decimal number of at most 28 digits")]
pub struct ParseDecimalError;

impl Decimal {
    /// `mantissa` with `scale` digits after the point: `Decimal::new(1010, 2)` is 10.10.
    ///
    /// # Panics
    /// When `scale` is more than 28; the forms of `rust_decimal`, from which a `Decimal` converts, do not panic.
    pub fn new(mantissa: i64, scale: u32) -> Self {
        Self(rust_decimal::Decimal::new(mantissa, scale))
    }

    /// The value as a `rust_decimal::Decimal`, for operations that are not provided here.
    pub fn into_inner(self) -> rust_decimal::Decimal {
        self.0
    }

    /// Parses text that is known to be one JSON value; `None` if it is not a number or does not fit.
    pub(crate) fn from_json_number(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        match text.split_once(['e', 'E']) {
            // `from_str_exact` rejects a number that does not fit, whereas `from_str` would round it.
            None => rust_decimal::Decimal::from_str_exact(text).ok(),
            Some((mantissa, exponent)) => scale(mantissa, exponent),
        }
        .map(Self)
    }

    /// The value as an integer, if it is one that fits into 64 bits.
    pub fn to_integer(self) -> Option<i64> {
        self.0.is_integer().then(|| self.0.to_i64()).flatten()
    }
}

/// The longest text of a number that is parsed. No value that fits is as long, unless it was written to waste time.
const LONGEST: usize = 1_000;

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    /// Parses the text of a JSON number.
    fn from_str(text: &str) -> Result<Self, ParseDecimalError> {
        // rust_decimal also accepts forms that JSON does not (`1_000`, `+1`, `.5`), so the form is checked first.
        serde_json::from_str::<&RawValue>(text)
            .ok()
            .filter(|json| json.get().len() == text.len())
            .and_then(|_| Self::from_json_number(text))
            .ok_or(ParseDecimalError)
    }
}

/// `mantissa * 10^exponent`, exactly or not at all.
fn scale(mantissa: &str, exponent: &str) -> Option<rust_decimal::Decimal> {
    let value = rust_decimal::Decimal::from_str_exact(mantissa).ok()?;
    let exponent = exponent.parse::<i64>().ok();
    let scale = exponent.and_then(|exponent| i64::from(value.scale()).checked_sub(exponent));
    if value.is_zero() {
        // Zero stays zero however far the point moves. Its scale is kept if possible: Python writes
        // `0.0000000` as `0E-7`.
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
    // More than 28 places to the left cannot fit, so the loop is short.
    for _ in 0..u32::try_from(-scale).ok().filter(|places| *places <= 28)? {
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
