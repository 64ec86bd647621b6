//! The column type of decimal numbers.

use std::fmt;

use arrow_schema::DataType;

use crate::value::Decimal;

/// The column type of a deal's decimal numbers: `decimal128(38, 10)` by default.
///
/// ```
/// use dealkit::arrow::Decimals;
///
/// assert_eq!(Decimals::default().to_string(), "decimal128(38, 10)");
/// assert_eq!(Decimals::with_scale(2).unwrap().to_string(), "decimal128(38, 2)");
/// assert_eq!(Decimals::with_scale(39), None);
/// assert_eq!(Decimals::STRINGS.to_string(), "utf8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimals(Option<u8>);

impl Decimals {
    /// Strings with the original digits: `10.10` stays `10.10`.
    pub const STRINGS: Self = Self(None);

    /// The maximum number of digits, before and after the point together.
    pub const PRECISION: u8 = 38;

    /// The default number of digits after the point.
    pub const SCALE: u8 = 10;

    /// Returns `decimal128` with `scale` digits after the point and 38 minus `scale` before it; `None` if `scale` is above 38.
    ///
    /// A number with more digits is an error of its deal, and is never rounded.
    pub const fn with_scale(scale: u8) -> Option<Self> {
        if scale <= Self::PRECISION {
            Some(Self(Some(scale)))
        } else {
            None
        }
    }

    /// Returns the number of digits after the point; `None` for strings.
    pub const fn scale(self) -> Option<u8> {
        self.0
    }

    pub(super) fn data_type(self) -> DataType {
        match self.0 {
            // The scale is at most 38, so the cast is exact.
            Some(scale) => DataType::Decimal128(Self::PRECISION, scale as i8),
            None => DataType::Utf8,
        }
    }
}

impl Default for Decimals {
    fn default() -> Self {
        Self(Some(Self::SCALE))
    }
}

impl fmt::Display for Decimals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(scale) => write!(f, "decimal128({}, {scale})", Self::PRECISION),
            None => f.write_str("utf8"),
        }
    }
}

/// The smallest number with more than 38 digits.
const LIMIT: u128 = 10_u128.pow(Decimals::PRECISION as u32);

impl Decimals {
    /// Returns the integer that represents a number in a column of this scale: the number times `10^scale`. `None` if the
    /// result is not an integer of at most 38 digits, or if the column holds strings.
    #[inline]
    pub(super) fn unscaled(self, number: Decimal) -> Option<i128> {
        let number = number.into_inner();
        let (mantissa, scale, column_scale) =
            (number.mantissa(), number.scale(), u32::from(self.0?));
        let value = if scale <= column_scale {
            mantissa.checked_mul(10_i128.checked_pow(column_scale - scale)?)?
        } else {
            let factor = 10_i128.checked_pow(scale - column_scale)?;
            (mantissa % factor == 0).then(|| mantissa / factor)?
        };
        (value.unsigned_abs() < LIMIT).then_some(value)
    }
}
