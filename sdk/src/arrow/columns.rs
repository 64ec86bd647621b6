//! The columns of a table of deals, derived from the field table, and appending of values to them.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::builder::{
    ArrayBuilder, Date32Builder, Decimal128Builder, Int64Builder, ListBuilder, MapBuilder,
    StringBuilder, StructBuilder, TimestampMicrosecondBuilder,
};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use chrono::{DateTime, Datelike as _, NaiveDate, Utc};

use super::decimals::Decimals;
use crate::{
    json::decode_error::Step,
    model::*,
    specification::schema::{FieldKind, Model, Presence},
    value::*,
};

/// Returns the columns of a model: one for each field, and `extra` for its undocumented fields.
pub(super) fn columns(model: &Model, decimals: Decimals) -> Fields {
    let documented = model.fields.iter().map(|field| {
        let is_collection = matches!(field.kind, FieldKind::ModelList(_) | FieldKind::StringMap);
        let is_nullable = field.presence != Presence::Required && !is_collection;
        Field::new(field.name, data_type(field.kind, decimals), is_nullable)
    });
    let extra = Field::new("extra", DataType::Utf8, true);
    documented.chain([extra]).collect()
}

fn data_type(kind: FieldKind, decimals: Decimals) -> DataType {
    match kind {
        FieldKind::String
        | FieldKind::Identifier
        | FieldKind::ExtensibleEnum(_)
        | FieldKind::JsonObject => DataType::Utf8,
        FieldKind::Boolean => DataType::Boolean,
        FieldKind::Integer => DataType::Int64,
        FieldKind::Decimal => decimals.data_type(),
        FieldKind::Date => DataType::Date32,
        FieldKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        FieldKind::Model(model) => DataType::Struct(columns(model, decimals)),
        FieldKind::ModelList(model) => {
            let items = DataType::Struct(columns(model, decimals));
            DataType::List(Arc::new(Field::new_list_field(items, false)))
        }
        FieldKind::StringMap => {
            // The Arrow specification recommends these names.
            let entry = ["key", "value"].map(|name| Field::new(name, DataType::Utf8, false));
            let entries = DataType::Struct(entry.into_iter().collect());
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
    }
}

/// A type of the field table whose values are appended to a column.
pub(super) trait ColumnValue {
    /// Appends a value; `None` becomes a null, or an empty list in a column without nulls. Call
    /// [`find_overflow`](Self::find_overflow) first, because every decimal must fit its column.
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals);

    /// Finds a decimal that its column cannot hold, and returns its path in reverse order; `None` if all fit.
    fn find_overflow(&self, _: Decimals) -> Option<Vec<Step<'static>>> {
        None
    }
}

/// Calls `append` with the column's builder, whose type `B` must match [`data_type`].
fn with_column<B: ArrayBuilder>(column: &mut dyn ArrayBuilder, append: impl FnOnce(&mut B)) {
    let column = column.as_any_mut().downcast_mut();
    debug_assert!(column.is_some());
    column.map(append);
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        T::append_to(value.and_then(Option::as_ref), column, decimals);
    }

    fn find_overflow(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
        self.as_ref()?.find_overflow(decimals)
    }
}

impl<T: ColumnValue> ColumnValue for Vec<T> {
    fn append_to(items: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        with_column(column, |column: &mut ListBuilder<Box<dyn ArrayBuilder>>| {
            for item in items.into_iter().flatten() {
                T::append_to(Some(item), &mut **column.values(), decimals);
            }
            column.append(true);
        });
    }

    fn find_overflow(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
        self.iter().enumerate().find_map(|(index, item)| {
            let mut path = item.find_overflow(decimals)?;
            path.push(Step::Item(index));
            Some(path)
        })
    }
}

impl ColumnValue for BTreeMap<String, String> {
    fn append_to(entries: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        type Strings = MapBuilder<Box<dyn ArrayBuilder>, Box<dyn ArrayBuilder>>;
        with_column(column, |column: &mut Strings| {
            for (name, value) in entries.into_iter().flatten() {
                String::append_to(Some(name), &mut **column.keys(), decimals);
                String::append_to(Some(value), &mut **column.values(), decimals);
            }
            // Appending cannot fail, because there are as many values as names.
            let _ = column.append(true);
        });
    }
}

impl ColumnValue for i64 {
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with_column(column, |column: &mut Int64Builder| {
            column.append_option(value.copied());
        });
    }
}

impl ColumnValue for Decimal {
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        match decimals.scale() {
            Some(_) => with_column(column, |column: &mut Decimal128Builder| {
                column.append_option(value.and_then(|value| decimals.unscaled(*value)));
            }),
            None => with_column(column, |column: &mut StringBuilder| {
                column.append_option(value.map(Decimal::to_string));
            }),
        }
    }

    fn find_overflow(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
        let fits = decimals.scale().is_none() || decimals.unscaled(*self).is_some();
        (!fits).then(Vec::new)
    }
}

/// The number of 1970-01-01, Arrow's day 0, in chrono's count of days.
const EPOCH_DAY: i32 = 719_163;

impl ColumnValue for NaiveDate {
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with_column(column, |column: &mut Date32Builder| {
            column.append_option(value.map(|day| day.num_days_from_ce() - EPOCH_DAY));
        });
    }
}

impl ColumnValue for DateTime<Utc> {
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with_column(column, |column: &mut TimestampMicrosecondBuilder| {
            column.append_option(value.map(|moment| {
                // Truncate to microseconds, and limit a leap second to the last microsecond before it, as in Python's
                // datetimes. The sum cannot overflow in the years 0001 to 9999.
                let micros = i64::from(moment.timestamp_subsec_micros().min(999_999));
                moment.timestamp() * 1_000_000 + micros
            }));
        });
    }
}

impl<T: StringValue> ColumnValue for T {
    fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with_column(column, |column: &mut StringBuilder| {
            column.append_option(value.map(AsRef::<str>::as_ref));
        });
    }
}

/// Implements [`ColumnValue`] for the response types; see [`__response_models`](crate::__response_models) for the syntax.
macro_rules! structs {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[$field_doc:meta])* $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        $( structs!(@model $model { $( $field: $type = $wire, )+ }); )+
    };

    // There are no tables of agents.
    (@model Agent $fields:tt) => {};
    (@model AgentProfileResponse $fields:tt) => {};
    (@model RoleAssignment $fields:tt) => {};

    (@model $model:ident { $( $field:ident: $type:ty = $wire:literal, )+ }) => {
        impl ColumnValue for $model {
            fn append_to(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
                with_column(column, |column: &mut StructBuilder| {
                    if let [$( $field, )+ extra] = column.field_builders_mut() {
                        $( <$type>::append_to(value.map(|value| &value.$field), &mut **$field, decimals); )+
                        let undocumented = value.map(Self::extra).filter(|extra| !extra.is_empty());
                        let undocumented = undocumented.map(|extra| Json::from_infallible(extra).into_text());
                        String::append_to(undocumented.as_ref(), &mut **extra, decimals);
                    }
                    column.append(value.is_some());
                });
            }

            fn find_overflow(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
                $( if let Some(mut path) = self.$field.find_overflow(decimals) {
                    path.push(Step::Field($wire.into(), None));
                    return Some(path);
                } )+
                None
            }
        }
    };
}

crate::__response_models!(structs);
