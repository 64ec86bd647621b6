//! When two JSON texts are the same value.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use serde_json::value::RawValue;

use super::kind::Kind;

/// How many arrays and objects may enclose each other in what is looked at value by value.
pub(super) const MAX_DEPTH: usize = 127;

/// Whether two valid JSON texts hold the same value: the order of fields, escapes and the form of numbers
/// aside. Below [`MAX_DEPTH`] levels the texts must be the same, white space aside.
pub(super) fn same_value(left: &str, right: &str) -> bool {
    same_text(left, right) || same_at(left, right, 0)
}

fn same_at(left: &str, right: &str, depth: usize) -> bool {
    let kind = Kind::of(left);
    if kind != Kind::of(right) {
        return false;
    }
    match kind {
        Kind::Null => true,
        Kind::Boolean => left.trim() == right.trim(),
        Kind::Number => same_number(left.trim(), right.trim()),
        Kind::String => same_string(left, right),
        Kind::Array | Kind::Object if depth == MAX_DEPTH => same_text(left, right),
        Kind::Array => match (items(left), items(right)) {
            (Some(left), Some(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| same_at(left.get(), right.get(), depth + 1))
            }
            _ => false,
        },
        Kind::Object => match (fields(left), fields(right)) {
            (Some(left), Some(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|((name, left), (other, right))| {
                            *name == other && same_at(left.get(), right.get(), depth + 1)
                        })
            }
            _ => false,
        },
    }
}

fn items(text: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(text).ok()
}

/// The fields in the order of their names; of equal names the last.
fn fields(text: &str) -> Option<BTreeMap<Characters<'_>, &RawValue>> {
    serde_json::from_str(text).ok()
}

fn same_string(left: &str, right: &str) -> bool {
    match (
        serde_json::from_str::<Characters<'_>>(left),
        serde_json::from_str::<Characters<'_>>(right),
    ) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

/// The characters of a JSON string, as bytes: a JSON string may hold halves of surrogate pairs, which no Rust
/// string can.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Characters<'de>(Cow<'de, [u8]>);

impl<'de> Deserialize<'de> for Characters<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Characters<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: de::Error>(
                self,
                bytes: &'de [u8],
            ) -> Result<Characters<'de>, E> {
                Ok(Characters(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Characters<'de>, E> {
                Ok(Characters(Cow::Owned(bytes.to_owned())))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

fn same_number(left: &str, right: &str) -> bool {
    let (left, right) = (Number::of(left), Number::of(right));
    if left.is_zero() || right.is_zero() {
        return left.is_zero() && right.is_zero();
    }
    left.is_negative == right.is_negative
        && left.digits().eq(right.digits())
        // 0.d × 10^(point + exponent) on both sides.
        && difference(left.exponent, right.exponent) == Some(right.point() - left.point())
}

/// A JSON number in its parts. It is never worked out: `1e999999999` has a billion digits.
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

    /// How many zeros come first.
    fn zeros(&self) -> usize {
        let digits = self.whole.bytes().chain(self.fraction.bytes());
        digits.take_while(|digit| *digit == b'0').count()
    }

    fn is_zero(&self) -> bool {
        self.zeros() == self.whole.len() + self.fraction.len()
    }

    /// Where the decimal point stands, from before the first digit that is not zero.
    fn point(&self) -> i128 {
        self.whole.len() as i128 - self.zeros() as i128
    }
}

/// How much larger the first of two integers of any length is; `None` where that is more than any two texts
/// in memory are long.
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

/// The digits, with zeros before them up to this length.
fn padded(digits: &str, length: usize) -> impl Iterator<Item = i128> {
    std::iter::repeat_n(0, length - digits.len())
        .chain(digits.bytes().map(|digit| i128::from(digit - b'0')))
}

/// Whether the texts are the same, white space between tokens aside.
fn same_text(left: &str, right: &str) -> bool {
    left == right || significant(left).eq(significant(right))
}

/// The bytes of `text` without the white space between tokens.
fn significant(text: &str) -> impl Iterator<Item = u8> + '_ {
    let mut in_string = false;
    let mut escaped = false;
    text.bytes().filter(move |byte| {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            return true;
        }
        in_string = *byte == b'"';
        !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    })
}
