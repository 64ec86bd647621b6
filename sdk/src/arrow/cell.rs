//! How the value of a field is added to its column.

use std::{borrow::Cow, collections::BTreeMap};

use arrow_array::types::{Date32Type, Int64Type, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, NaiveDate, Utc};

use super::{
    column::{Column, List, Numbers, Plain, Strings, Text},
    decimals::rescaled,
};
use crate::{
    json::lexer::{Lexed, Lexer, Refused},
    value::{Decimal, WireText, scalar},
};

/// A type of the field table whose values go into a column.
pub(super) trait Cell: Sized {
    type Column: Column;

    /// Whether the column has nulls.
    const IS_NULLABLE: bool = false;

    /// Adds the next value in a document. If the value is refused, half of it may be left in the column.
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()>;
}

/// The fields of an object that no column but `extra` holds.
pub(super) type Extra<'a> = BTreeMap<Cow<'a, str>, &'a str>;

/// Adds the next value in a document, that of a field, to the row that is being read.
#[inline]
pub(super) fn lex_field<'a, T: Cell>(
    lexer: &mut Lexer<'a>,
    column: &mut T::Column,
    row: usize,
    is_required: bool,
    wire: &'static str,
    extra: &mut Extra<'a>,
) -> Lexed<()> {
    if column.len() != row {
        // The field occurs for the second time, and the last one counts.
        return Err(Refused);
    }
    if !is_required && lexer.peek() == b'n' {
        if let Some(json) = lexer.absent()? {
            extra.insert(wire.into(), json.get());
        }
        column.push_nothing();
        return Ok(());
    }
    T::lex(lexer, column)
}

/// Completes the row that was read with an empty value in this column, if the document has none for it.
#[inline]
pub(super) fn complete<T: Cell>(
    column: &mut T::Column,
    row: usize,
    is_required: bool,
) -> Lexed<()> {
    if column.len() == row {
        if is_required {
            return Err(Refused);
        }
        column.push_nothing();
    }
    Ok(())
}

impl<T: Cell> Cell for Option<T> {
    type Column = T::Column;

    const IS_NULLABLE: bool = true;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut T::Column) -> Lexed<()> {
        T::lex(lexer, column)
    }
}

impl<T: Cell> Cell for Vec<T> {
    type Column = List<T::Column>;

    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()> {
        let mut more = lexer.array()?;
        while more {
            T::lex(lexer, &mut column.items)?;
            more = lexer.item()?;
        }
        column.end();
        Ok(())
    }
}

impl Cell for BTreeMap<String, String> {
    type Column = Strings;

    fn lex(lexer: &mut Lexer<'_>, column: &mut Strings) -> Lexed<()> {
        // Sorted by name, and the last of equal names wins: as in a model.
        let mut entries = BTreeMap::<Cow<'_, str>, Cow<'_, str>>::new();
        let mut more = lexer.object()?;
        while more {
            let name = lexer.name()?;
            entries.insert(name, lexer.string()?);
            more = lexer.field()?;
        }
        for (name, value) in &entries {
            column.push_entry(name, value);
        }
        column.end();
        Ok(())
    }
}

impl Cell for i64 {
    type Column = Plain<Int64Type>;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()> {
        column.push(lexer.integer()?);
        Ok(())
    }
}

impl Cell for Decimal {
    type Column = Numbers;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Numbers) -> Lexed<()> {
        let number = lexer.number()?;
        match (number.digits, column) {
            (Some(digits), Numbers::Exact { values, scale }) => {
                let value = rescaled(digits.mantissa.into(), digits.scale, *scale);
                values.push(value.ok_or(Refused)?);
            }
            // Without an exponent, and not a negative zero: a decimal is written in the same way.
            (Some(_), Numbers::Text(text)) => text.push(number.text),
            (None, column) => {
                let decimal = scalar::decimal(number.text).ok_or(Refused)?;
                match column {
                    Numbers::Exact { values, scale } => {
                        let decimal = decimal.into_inner();
                        let value = rescaled(decimal.mantissa(), decimal.scale(), *scale);
                        values.push(value.ok_or(Refused)?);
                    }
                    Numbers::Text(text) => text.push(&decimal.to_string()),
                }
            }
        }
        Ok(())
    }
}

/// The day 1970-01-01, from which Arrow counts days, in chrono's count.
const EPOCH: i32 = 719_163;

impl Cell for NaiveDate {
    type Column = Plain<Date32Type>;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()> {
        column.push(lexer.date()?.to_chrono()?.num_days_from_ce() - EPOCH);
        Ok(())
    }
}

impl Cell for DateTime<Utc> {
    type Column = Plain<TimestampMicrosecondType>;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()> {
        let moment = lexer.timestamp()?.to_chrono()?;
        // Anything finer is truncated, and a leap second ends before it begins, as in Python's datetimes. The years are
        // 0001 to 9999, which fit.
        let micros = i64::from(moment.timestamp_subsec_micros().min(999_999));
        column.push(moment.timestamp() * 1_000_000 + micros);
        Ok(())
    }
}

impl<T: WireText> Cell for T {
    type Column = Text;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Text) -> Lexed<()> {
        match lexer.plain() {
            Some(text) => column.push(text),
            None => column.push(&lexer.string()?),
        }
        Ok(())
    }
}
