//! Dates and timestamps, from their digits.

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};

use crate::json::lexer::cursor::{Lexed, Lexer, Refused};
use crate::value::{day_of, scalar, two_digits};

/// A day in the years 0001 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: u16,
    pub month: u8,
    pub day: u8,
}

impl Date {
    #[inline]
    pub fn to_chrono(self) -> Lexed<NaiveDate> {
        NaiveDate::from_ymd_opt(self.year.into(), self.month.into(), self.day.into()).ok_or(Refused)
    }

    fn of(date: NaiveDate) -> Lexed<Self> {
        Ok(Self {
            year: u16::try_from(date.year()).map_err(|_| Refused)?,
            month: narrow(date.month())?,
            day: narrow(date.day())?,
        })
    }
}

/// A moment in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    pub date: Date,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    /// 0 to 999,999,999, and a billion more within a leap second, as in chrono.
    pub nano: u32,
}

impl Timestamp {
    #[inline]
    pub fn to_chrono(self) -> Lexed<DateTime<Utc>> {
        let (hour, minute, second) = (self.hour.into(), self.minute.into(), self.second.into());
        let day = self.date.to_chrono()?;
        let moment = day.and_hms_nano_opt(hour, minute, second, self.nano);
        Ok(moment.ok_or(Refused)?.and_utc())
    }

    fn of(moment: DateTime<Utc>) -> Lexed<Self> {
        Ok(Self {
            date: Date::of(moment.date_naive())?,
            hour: narrow(moment.hour())?,
            minute: narrow(moment.minute())?,
            second: narrow(moment.second())?,
            nano: moment.nanosecond(),
        })
    }
}

fn narrow(part: u32) -> Lexed<u8> {
    u8::try_from(part).map_err(|_| Refused)
}

impl Lexer<'_> {
    #[inline]
    pub fn date(&mut self) -> Lexed<Date> {
        self.peek();
        if let Some(([b'"', digits @ .., b'"'], rest)) = self.rest().split_first_chunk::<12>()
            && let Some(date) = date_of(digits)
        {
            self.leave(rest);
            return Ok(date);
        }
        self.rare_date()
    }

    #[cold]
    fn rare_date(&mut self) -> Lexed<Date> {
        Date::of(scalar::date(&self.string()?).ok_or(Refused)?)
    }

    #[inline]
    pub fn timestamp(&mut self) -> Lexed<Timestamp> {
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
    fn rare_timestamp(&mut self) -> Lexed<Timestamp> {
        Timestamp::of(scalar::timestamp(&self.string()?).ok_or(Refused)?)
    }
}

/// `YYYY-MM-DD`.
#[inline]
fn date_of(text: &[u8; 10]) -> Option<Date> {
    let (year, month, day) = day_of(text)?;
    Some(Date { year, month, day })
}

/// `"YYYY-MM-DDTHH:MM:SSZ"`, optionally with a fraction, and what follows it; any other form is rare.
#[inline]
fn timestamp_in(text: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (head, mut rest) = text.split_first_chunk::<20>()?;
    let [b'"', date @ .., b'T', h1, h2, b':', m1, m2, b':', s1, s2] = head else {
        return None;
    };
    let date = date_of(date)?;
    let (hour, minute, second) = (
        two_digits(*h1, *h2)?,
        two_digits(*m1, *m2)?,
        two_digits(*s1, *s2)?,
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
    let timestamp = Timestamp {
        date,
        hour,
        minute,
        second,
        nano,
    };
    (hour < 24 && minute < 60 && second < 60).then_some((timestamp, rest))
}
