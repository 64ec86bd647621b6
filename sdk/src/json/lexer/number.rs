//! Numbers, from their digits.

use crate::json::lexer::cursor::{Lexed, Lexer, Refused};
use crate::value::{Decimal, scalar};

#[derive(Clone, Copy)]
pub struct Number<'a> {
    pub text: &'a str,
    /// Its digits; `None` if it has more than 18 digits or an exponent, or is a zero with a minus sign.
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

/// The maximum number of digits that are evaluated: any number with that many fits into 64 bits.
const MAX_DIGITS: usize = 18;

impl<'a> Lexer<'a> {
    #[inline]
    pub fn number(&mut self) -> Lexed<Number<'a>> {
        let is_negative = self.peek() == b'-';
        let start = self.at;
        self.at += usize::from(is_negative);
        let whole = self.rest();
        let mut mantissa = 0;
        let mut rest = count_in(whole, &mut mantissa);
        let mut digits = whole.len() - rest.len();
        if digits == 0 || (digits > 1 && whole.first() == Some(&b'0')) {
            return Err(Refused);
        }
        let mut scale = 0;
        if let [b'.', fraction @ ..] = rest {
            rest = count_in(fraction, &mut mantissa);
            scale = fraction.len() - rest.len();
            if scale == 0 {
                return Err(Refused);
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
            rest = count_in(exponent, &mut 0);
            if rest.len() == exponent.len() {
                return Err(Refused);
            }
        }
        self.leave(rest);
        Ok(Number {
            text: self.slice(start, self.at),
            digits: is_plain.then(|| {
                // 18 digits fit, and so does a scale below that.
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
    pub fn integer(&mut self) -> Lexed<i64> {
        let number = self.number()?;
        match number.digits {
            Some(Digits { mantissa, scale: 0 }) => Ok(mantissa),
            _ => scalar::parse_integer(number.text).ok_or(Refused),
        }
    }

    /// Reads a number as an exact decimal.
    #[inline]
    pub fn decimal(&mut self) -> Lexed<Decimal> {
        let number = self.number()?;
        match number.digits {
            Some(Digits { mantissa, scale }) => Ok(Decimal::new(mantissa, scale)),
            None => scalar::parse_decimal(number.text).ok_or(Refused),
        }
    }
}

/// Appends the leading digits to a number, and returns what follows them. The number is wrong if there are too many.
#[inline(always)]
fn count_in<'a>(mut text: &'a [u8], number: &mut u64) -> &'a [u8] {
    while let [byte @ b'0'..=b'9', rest @ ..] = text {
        *number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        text = rest;
    }
    text
}
