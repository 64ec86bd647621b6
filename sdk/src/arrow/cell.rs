//! How the value of a field goes into its column: from JSON, and from a model.

use std::{borrow::Cow, collections::BTreeMap};

use arrow_array::types::{Date32Type, Int64Type, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, NaiveDate, Utc};

use super::{
    column::{Column, List, Numbers, Plain, Strings, Text},
    decimals::{rescaled, rescaled_decimal},
};
use crate::{
    decode::Step,
    lexer::{Lexed, Lexer, Refused},
    scalar, value,
};

/// A type of the field table whose values go into a column.
pub(super) trait Cell: Sized {
    type Column: Column;

    /// Whether the column has nulls.
    const IS_NULLABLE: bool = false;

    /// Adds the value that comes next in a document. Where it is refused, the column may be left with half of it.
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()>;

    /// Adds a value. Where it does not fit, the column may be left with half of it.
    fn store(&self, column: &mut Self::Column) -> Result<(), Misfit>;
}

/// A decimal number that its column cannot hold exactly: where it stands, from the inside out.
#[derive(Default)]
pub(super) struct Misfit(pub(super) Vec<Step>);

impl Misfit {
    pub(super) fn within(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }
}

/// Adds the value of a field that comes next in a document to the row that is being read.
#[inline]
pub(super) fn lex_field<T: Cell>(
    lexer: &mut Lexer<'_>,
    column: &mut T::Column,
    row: usize,
    is_required: bool,
) -> Lexed<()> {
    if column.len() != row {
        // The field stands here for the second time, and the last counts.
        return Err(Refused);
    }
    if !is_required && lexer.peek() == b'n' {
        lexer.null()?;
        column.push_nothing();
        return Ok(());
    }
    T::lex(lexer, column)
}

/// Completes the row that was read with nothing in this column, if the document has nothing for it.
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

    fn store(&self, column: &mut T::Column) -> Result<(), Misfit> {
        match self {
            Some(value) => value.store(column),
            None => {
                column.push_nothing();
                Ok(())
            }
        }
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

    fn store(&self, column: &mut Self::Column) -> Result<(), Misfit> {
        for (index, item) in self.iter().enumerate() {
            item.store(&mut column.items)
                .map_err(|misfit| misfit.within(Step::Item(index)))?;
        }
        column.end();
        Ok(())
    }
}

impl Cell for BTreeMap<String, String> {
    type Column = Strings;

    fn lex(lexer: &mut Lexer<'_>, column: &mut Strings) -> Lexed<()> {
        // In the order of the names, and of equal names the last: as a model has them.
        let mut entries = BTreeMap::<Cow<'_, str>, Cow<'_, str>>::new();
        let mut more = lexer.object()?;
        while more {
            let name = lexer.name()?;
            entries.insert(name, lexer.string()?.into_cow());
            more = lexer.field()?;
        }
        for (name, value) in &entries {
            column.push_entry(name, value);
        }
        column.end();
        Ok(())
    }

    fn store(&self, column: &mut Strings) -> Result<(), Misfit> {
        for (name, value) in self {
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

    fn store(&self, column: &mut Self::Column) -> Result<(), Misfit> {
        column.push(*self);
        Ok(())
    }
}

impl Cell for value::Decimal {
    type Column = Numbers;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Numbers) -> Lexed<()> {
        let number = lexer.number()?;
        match (number.digits, column) {
            (Some(digits), Numbers::Exact { values, scale }) => {
                let value = rescaled(digits.mantissa.into(), digits.scale, *scale);
                // Why it does not fit is said where it is read as a model.
                values.push(value.ok_or(Refused)?);
            }
            // Without an exponent, and not a negative zero: a decimal is written in the same way.
            (Some(_), Numbers::Text(text)) => text.push(number.text),
            (None, column) => {
                let decimal = scalar::decimal(number.text).ok_or(Refused)?;
                decimal.store(column).map_err(|_| Refused)?;
            }
        }
        Ok(())
    }

    fn store(&self, column: &mut Numbers) -> Result<(), Misfit> {
        match column {
            Numbers::Exact { values, scale } => {
                values.push(rescaled_decimal(*self, *scale).ok_or_else(Misfit::default)?);
            }
            Numbers::Text(text) => text.push(&self.to_string()),
        }
        Ok(())
    }
}

/// The day 1970-01-01, which Arrow counts days from, as chrono counts them.
const EPOCH: i32 = 719_163;

impl Cell for NaiveDate {
    type Column = Plain<Date32Type>;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()> {
        column.push(lexer.date()?.to_chrono()?.num_days_from_ce() - EPOCH);
        Ok(())
    }

    fn store(&self, column: &mut Self::Column) -> Result<(), Misfit> {
        column.push(self.num_days_from_ce() - EPOCH);
        Ok(())
    }
}

/// The microseconds since 1970. What is finer is cut off, and a leap second ends before it begins, as in Python's
/// datetimes.
#[inline]
fn microseconds(moment: &DateTime<Utc>) -> i64 {
    // Of the years 0001 to 9999, which fit.
    moment.timestamp() * 1_000_000 + i64::from(moment.timestamp_subsec_micros().min(999_999))
}

impl Cell for DateTime<Utc> {
    type Column = Plain<TimestampMicrosecondType>;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>, column: &mut Self::Column) -> Lexed<()> {
        column.push(microseconds(&lexer.timestamp()?.to_chrono()?));
        Ok(())
    }

    fn store(&self, column: &mut Self::Column) -> Result<(), Misfit> {
        column.push(microseconds(self));
        Ok(())
    }
}

/// Types that are strings.
macro_rules! text_cells {
    ($($of:ty),+ $(,)?) => {$(
        impl Cell for $of {
            type Column = Text;

            #[inline]
            fn lex(lexer: &mut Lexer<'_>, column: &mut Text) -> Lexed<()> {
                match lexer.plain() {
                    Some(text) => column.push(text),
                    None => column.push(lexer.string()?.as_str()),
                }
                Ok(())
            }

            fn store(&self, column: &mut Text) -> Result<(), Misfit> {
                column.push(self.as_str());
                Ok(())
            }
        }
    )+};
}

text_cells!(
    String,
    value::AgentId,
    value::ApplicationId,
    value::ApplicationStatus,
    value::ContactFieldId,
    value::ContactFieldType,
    value::ContactId,
    value::ContactSchemaId,
    value::ContactType,
    value::DealId,
    value::DealPhase,
    value::DealStatus,
    value::FieldSchemaId,
    value::ListingContractId,
    value::ListingSide,
    value::OfferId,
    value::QuoteId,
);
