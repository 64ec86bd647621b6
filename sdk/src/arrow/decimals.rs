//! How decimal numbers are represented in a table, and whether a number fits.

use std::fmt;

use arrow_schema::DataType;

use crate::value::Decimal;

/// How the decimal numbers of deals are represented in a table: as `decimal128(38, 10)` by default.
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
    /// As text, with the original digits: `10.10` stays `10.10`.
    pub const STRINGS: Self = Self(None);

    /// The maximum number of digits, before and after the point together.
    pub const PRECISION: u8 = 38;

    /// How many digits after the point are kept by default.
    pub const SCALE: u8 = 10;

    /// As `decimal128` with this many digits after the point, which leaves 38 minus `scale` before it; `None` for
    /// more than 38.
    ///
    /// A number with more digits than that is an error of its deal, and is never rounded.
    pub const fn with_scale(scale: u8) -> Option<Self> {
        if scale <= Self::PRECISION {
            Some(Self(Some(scale)))
        } else {
            None
        }
    }

    /// The number of digits after the point; `None` for text.
    pub const fn scale(self) -> Option<u8> {
        self.0
    }

    pub(super) fn data_type(self) -> DataType {
        match self.0 {
            // At most 38.
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

/// The smallest number that has too many digits.
const LIMIT: u128 = 10_u128.pow(Decimals::PRECISION as u32);

impl Decimals {
    /// The integer that represents a number in a column of this scale; `None` if that would be another number, or has too
    /// many digits, or for text.
    #[inline]
    pub(super) fn digits(self, number: Decimal) -> Option<i128> {
        let number = number.into_inner();
        let (mantissa, scale, wanted) = (number.mantissa(), number.scale(), u32::from(self.0?));
        let value = if scale <= wanted {
            mantissa.checked_mul(10_i128.checked_pow(wanted - scale)?)?
        } else {
            let factor = 10_i128.checked_pow(scale - wanted)?;
            (mantissa % factor == 0).then(|| mantissa / factor)?
        };
        (value.unsigned_abs() < LIMIT).then_some(value)
    }
}
