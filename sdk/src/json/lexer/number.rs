//! Reading of numbers.

use crate::json::lexer::cursor::{LexError, LexResult, Lexer};
use crate::value::{Decimal, scalar};

/// A number as written in the document.
#[derive(Clone, Copy)]
pub struct Number<'a> {
    pub text: &'a str,
    /// The number as integers, which are fast to convert; `None` if it has more than 18 digits or an exponent, or is a negative
    /// zero.
    pub digits: Option<Digits>,
}

/// The number `mantissa / 10^scale`, written with `scale` digits after the point.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digits {
    /// At most 18 digits.
    pub mantissa: i64,
    /// At most 17.
    pub scale: u32,
}

/// The maximum number of digits in [`Digits`]: any number with 18 digits fits into 64 bits.
const MAX_DIGITS: usize = 18;

impl<'a> Lexer<'a> {
    /// Reads a number.
    #[inline]
    pub fn read_number(&mut self) -> LexResult<Number<'a>> {
        let is_negative = self.peek() == b'-';
        let start = self.at;
        self.at += usize::from(is_negative);
        let whole = self.rest();
        let mut mantissa = 0;
        let mut rest = read_digits(whole, &mut mantissa);
        let mut digits = whole.len() - rest.len();
        if digits == 0 || (digits > 1 && whole.first() == Some(&b'0')) {
            return Err(LexError);
        }
        let mut scale = 0;
        if let [b'.', fraction @ ..] = rest {
            rest = read_digits(fraction, &mut mantissa);
            scale = fraction.len() - rest.len();
            if scale == 0 {
                return Err(LexError);
            }
            digits += scale;
        }
        let mut is_plain = digits <= MAX_DIGITS && !(is_negative && mantissa == 0);
        if let [b'e' | b'E', exponent @ ..] = rest {
            is_plain = false;
            let exponent = match exponent {
                [b'+' | b'-', digits @ ..] => digits,
                digits => digits,
            };
            rest = read_digits(exponent, &mut 0);
            if rest.len() == exponent.len() {
                return Err(LexError);
            }
        }
        self.advance_to(rest);
        Ok(Number {
            text: self.slice(start, self.at),
            digits: is_plain.then(|| {
                // At most 18 digits fit into an i64, and a scale below 18 into a u32.
                let mantissa = mantissa as i64;
                Digits {
                    mantissa: if is_negative { -mantissa } else { mantissa },
                    scale: scale as u32,
                }
            }),
        })
    }

    /// Reads an integer, which JSON may write as `450000.0`.
    #[inline]
    pub fn read_integer(&mut self) -> LexResult<i64> {
        let number = self.read_number()?;
        match number.digits {
            Some(Digits { mantissa, scale: 0 }) => Ok(mantissa),
            _ => scalar::parse_integer(number.text).ok_or(LexError),
        }
    }

    /// Reads a number as an exact decimal.
    #[inline]
    pub fn read_decimal(&mut self) -> LexResult<Decimal> {
        let number = self.read_number()?;
        match number.digits {
            Some(Digits { mantissa, scale }) => Ok(Decimal::new(mantissa, scale)),
            None => scalar::parse_decimal(number.text).ok_or(LexError),
        }
    }
}

/// Reads digits at the start of the text, appends them to `number`, and returns the remaining text. `number` overflows if there
/// are more than 18 digits; the caller checks their count.
#[inline(always)]
fn read_digits<'a>(mut text: &'a [u8], number: &mut u64) -> &'a [u8] {
    while let [byte @ b'0'..=b'9', rest @ ..] = text {
        *number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        text = rest;
    }
    text
}
