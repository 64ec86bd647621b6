//! Dates and timestamps, from their digits.

use chrono::{DateTime, NaiveDate, Utc};

use crate::json::lexer::cursor::{Lexed, Lexer, Refused};
use crate::value::{parse_date_bytes, parse_two_digits, scalar};

impl Lexer<'_> {
    #[inline]
    pub fn date(&mut self) -> Lexed<NaiveDate> {
        self.peek();
        if let Some(([b'"', digits @ .., b'"'], rest)) = self.rest().split_first_chunk::<12>()
            && let Some(date) = parse_date_bytes(digits)
        {
            self.leave(rest);
            return Ok(date);
        }
        self.rare_date()
    }

    #[cold]
    fn rare_date(&mut self) -> Lexed<NaiveDate> {
        scalar::parse_date(&self.string()?).ok_or(Refused)
    }

    #[inline]
    pub fn timestamp(&mut self) -> Lexed<DateTime<Utc>> {
        self.peek();
        match timestamp_in(self.rest()) {
            Some((timestamp, rest)) => {
                self.leave(rest);
                Ok(timestamp)
            }
            None => self.rare_timestamp(),
        }
    }

    #[cold]
    fn rare_timestamp(&mut self) -> Lexed<DateTime<Utc>> {
        scalar::parse_timestamp(&self.string()?).ok_or(Refused)
    }
}

/// `"YYYY-MM-DDTHH:MM:SSZ"`, optionally with a fraction, and what follows it; any other form is rare.
#[inline]
fn timestamp_in(text: &[u8]) -> Option<(DateTime<Utc>, &[u8])> {
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
        let mut digit = 1_000_000_000;
        rest = fraction;
        while let [byte @ b'0'..=b'9', after @ ..] = rest {
            digit /= 10;
            nano += u32::from(byte - b'0') * digit;
            rest = after;
        }
        // No digits, or more than nine.
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
