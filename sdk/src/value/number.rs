//! JSON numbers as text: when two are equal, and which of them a binary number can hold.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Every decimal number with this many significant digits survives a round trip through a 64-bit float.
const CERTAIN_DIGITS: usize = f64::DIGITS as usize;

/// Whether the text is one JSON number and nothing else.
pub(super) fn is_json_number(text: &str) -> bool {
    // A number is the only JSON value that begins with a minus sign or a digit.
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().len() == text.len())
}

/// The message for a float that may have been another number before it became a float.
pub(super) const UNCERTAIN: &str = "expected a number whose digits are certain, found a binary float of more than 15 \
    significant digits: write the number as a string, or read the document directly with serde_json (not through \
    `serde_json::Value`, `flatten`, `tag` or `untagged`)";

/// The message for a float that is not a JSON number.
pub(super) const NOT_FINITE: &str = "expected a finite number, found infinity or NaN";

/// The text of a float that represents exactly one JSON number.
///
/// # Errors
/// If it has more than 15 significant digits: many decimal numbers then map to the same float, and it is not
/// known which one was meant. The error is the message that says so.
pub(super) fn text_of_float(float: f64) -> Result<String, &'static str> {
    let text = shortest_text_of_float(float)?;
    // Subnormal floats have fewer digits.
    let is_short = float == 0.0 || float.is_normal();
    if is_short && Number::of(&text).digits().count() <= CERTAIN_DIGITS {
        Ok(text)
    } else {
        Err(UNCERTAIN)
    }
}

/// The shortest JSON number that parses to this float.
///
/// # Errors
/// If there is none, a message that says so.
pub(super) fn shortest_text_of_float(float: f64) -> Result<String, &'static str> {
    serde_json::Number::from_f64(float)
        .map(|number| number.to_string())
        .ok_or(NOT_FINITE)
}

/// Whether a JSON number that was written from a `serde_json::Value` cannot have been another number before it was
/// read into the `Value`: it is an integer, or a float that is certain.
pub(super) fn is_certain(text: &str) -> bool {
    let is_float = text.contains(['.', 'e', 'E']);
    !is_float || Binary::of(text).is_some()
}

/// A 64-bit number that represents exactly one JSON number.
#[derive(Clone, Copy)]
pub(super) enum Binary {
    Integer(i64),
    Unsigned(u64),
    Float(f64),
}

impl Binary {
    /// The binary number that converts back to the JSON number `text`.
    pub(super) fn of(text: &str) -> Option<Self> {
        if let Ok(integer) = text.parse() {
            return Some(Self::Integer(integer));
        }
        if let Ok(integer) = text.parse() {
            return Some(Self::Unsigned(integer));
        }
        let float = text.parse().ok()?;
        let shortest = text_of_float(float).ok()?;
        same_number(text, &shortest).then_some(Self::Float(float))
    }
}

impl Serialize for Binary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(integer) => serializer.serialize_i64(integer),
            Self::Unsigned(integer) => serializer.serialize_u64(integer),
            Self::Float(float) => serializer.serialize_f64(float),
        }
    }
}

/// Whether two JSON numbers are equal, however they are written.
pub(super) fn same_number(left: &str, right: &str) -> bool {
    let (left, right) = (Number::of(left), Number::of(right));
    if left.is_zero() || right.is_zero() {
        return left.is_zero() && right.is_zero();
    }
    left.is_negative == right.is_negative
        && left.digits().eq(right.digits())
        // 0.d × 10^(point + exponent) on both sides.
        && difference(left.exponent, right.exponent) == Some(right.point() - left.point())
}

/// A JSON number in its parts. It is never evaluated: `1e999999999` has a billion digits.
struct Number<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: &'a str,
}

impl<'a> Number<'a> {
    fn of(text: &'a str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Self {
            is_negative: whole.starts_with('-'),
            whole: whole.trim_start_matches('-'),
            fraction,
            exponent,
        }
    }

    /// The digits from the first to the last that is not zero.
    fn digits(&self) -> impl Iterator<Item = u8> {
        let end = self.fraction.trim_end_matches('0');
        let whole = match end {
            "" => self.whole.trim_end_matches('0'),
            _ => self.whole,
        };
        whole.bytes().chain(end.bytes()).skip(self.zeros())
    }

    /// The number of leading zeros.
    fn zeros(&self) -> usize {
        let digits = self.whole.bytes().chain(self.fraction.bytes());
        digits.take_while(|digit| *digit == b'0').count()
    }

    fn is_zero(&self) -> bool {
        self.zeros() == self.whole.len() + self.fraction.len()
    }

    /// The position of the decimal point, relative to the first digit that is not zero.
    fn point(&self) -> i128 {
        self.whole.len() as i128 - self.zeros() as i128
    }
}

/// The difference between two integers of any length; `None` if it is greater than the length of any two
/// texts in memory.
fn difference(left: &str, right: &str) -> Option<i128> {
    let (left_sign, left) = sign_and_digits(left);
    let (right_sign, right) = sign_and_digits(right);
    let length = left.len().max(right.len());
    let mut difference = 0_i128;
    for (left, right) in padded(left, length).zip(padded(right, length)) {
        // It only grows from here on.
        if difference.abs() > i128::from(u64::MAX) {
            return None;
        }
        difference = difference * 10 + left_sign * left - right_sign * right;
    }
    Some(difference)
}

fn sign_and_digits(integer: &str) -> (i128, &str) {
    match integer.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, integer.trim_start_matches('+')),
    }
}

/// The digits, padded with leading zeros to this length.
fn padded(digits: &str, length: usize) -> impl Iterator<Item = i128> {
    std::iter::repeat_n(0, length - digits.len())
        .chain(digits.bytes().map(|digit| i128::from(digit - b'0')))
}
