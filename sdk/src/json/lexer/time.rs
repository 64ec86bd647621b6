//! Reading of dates and timestamps.

use chrono::{DateTime, NaiveDate, Utc};

use crate::json::lexer::cursor::{LexError, LexResult, Lexer};
use crate::value::{parse_date_bytes, parse_two_digits, scalar};

impl Lexer<'_> {
    /// Reads a date.
    #[inline]
    pub fn read_date(&mut self) -> LexResult<NaiveDate> {
        self.peek();
        if let Some(([b'"', digits @ .., b'"'], rest)) = self.rest().split_first_chunk::<12>()
            && let Some(date) = parse_date_bytes(digits)
        {
            self.advance_to(rest);
            return Ok(date);
        }
        self.read_uncommon_date()
    }

    #[cold]
    fn read_uncommon_date(&mut self) -> LexResult<NaiveDate> {
        scalar::parse_date(&self.read_string()?).ok_or(LexError)
    }

    /// Reads a timestamp, converted to UTC.
    #[inline]
    pub fn read_timestamp(&mut self) -> LexResult<DateTime<Utc>> {
        self.peek();
        match parse_common_timestamp(self.rest()) {
            Some((timestamp, rest)) => {
                self.advance_to(rest);
                Ok(timestamp)
            }
            None => self.read_uncommon_timestamp(),
        }
    }

    #[cold]
    fn read_uncommon_timestamp(&mut self) -> LexResult<DateTime<Utc>> {
        scalar::parse_timestamp(&self.read_string()?).ok_or(LexError)
    }
}

/// Parses the common form `"YYYY-MM-DDTHH:MM:SSZ"`, optionally with a fraction, and returns it with the remaining text.
#[inline]
fn parse_common_timestamp(text: &[u8]) -> Option<(DateTime<Utc>, &[u8])> {
    let (head, mut rest) = text.split_first_chunk::<20>()?;
    let [b'"', date @ .., b'T', h1, h2, b':', m1, m2, b':', s1, s2] = head else {
        return None;
    };
    let date = parse_date_bytes(date)?;
    let (hour, minute, second) = (
        parse_two_digits(*h1, *h2)?,
        parse_two_digits(*m1, *m2)?,
        parse_two_digits(*s1, *s2)?,
    );
    let mut nano = 0;
    if let [b'.', fraction @ ..] = rest {
        let mut digit_value = 1_000_000_000;
        rest = fraction;
        while let [byte @ b'0'..=b'9', after @ ..] = rest {
            digit_value /= 10;
            nano += u32::from(byte - b'0') * digit_value;
            rest = after;
        }
        // A fraction has one to nine digits.
        let count = fraction.len() - rest.len();
        if !(1..=9).contains(&count) {
            return None;
        }
    }
    let [b'Z', b'"', rest @ ..] = rest else {
        return None;
    };
    let moment = date.and_hms_nano_opt(hour.into(), minute.into(), second.into(), nano)?;
    Some((moment.and_utc(), rest))
}
