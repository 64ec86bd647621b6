//! The columns of a table, derived from the field table, and how a deal is added to them.

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

/// The columns of a model: one for each field, and `extra`.
pub(super) fn columns(model: &Model, decimals: Decimals) -> Fields {
    let documented = model.fields.iter().map(|field| {
        let is_list = matches!(field.kind, FieldKind::ModelList(_) | FieldKind::StringMap);
        let is_nullable = field.presence != Presence::Required && !is_list;
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
            // The names in the Arrow specification.
            let entry = ["key", "value"].map(|name| Field::new(name, DataType::Utf8, false));
            let entries = DataType::Struct(entry.into_iter().collect());
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
    }
}

/// A type of the field table whose values go into a column.
pub(super) trait Cell {
    /// Adds a value, or nothing: a null, or an empty list where the column has no nulls. A decimal must
    /// [fit](Self::misfit).
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals);

    /// Where a decimal is that its column cannot hold, from the inside out; `None` if all fit.
    fn misfit(&self, _: Decimals) -> Option<Vec<Step<'static>>> {
        None
    }
}

/// Does something with a column, which has the type that `data_type` says.
fn with<B: ArrayBuilder>(column: &mut dyn ArrayBuilder, add: impl FnOnce(&mut B)) {
    let column = column.as_any_mut().downcast_mut();
    debug_assert!(column.is_some());
    column.map(add);
}

impl<T: Cell> Cell for Option<T> {
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        T::add(value.and_then(Option::as_ref), column, decimals);
    }

    fn misfit(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
        self.as_ref()?.misfit(decimals)
    }
}

impl<T: Cell> Cell for Vec<T> {
    fn add(items: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        with(column, |column: &mut ListBuilder<Box<dyn ArrayBuilder>>| {
            for item in items.into_iter().flatten() {
                T::add(Some(item), &mut **column.values(), decimals);
            }
            column.append(true);
        });
    }

    fn misfit(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
        self.iter().enumerate().find_map(|(index, item)| {
            let mut path = item.misfit(decimals)?;
            path.push(Step::Item(index));
            Some(path)
        })
    }
}

impl Cell for BTreeMap<String, String> {
    fn add(entries: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        type Strings = MapBuilder<Box<dyn ArrayBuilder>, Box<dyn ArrayBuilder>>;
        with(column, |column: &mut Strings| {
            for (name, value) in entries.into_iter().flatten() {
                String::add(Some(name), &mut **column.keys(), decimals);
                String::add(Some(value), &mut **column.values(), decimals);
            }
            // There are as many values as names.
            let _ = column.append(true);
        });
    }
}

impl Cell for i64 {
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with(column, |column: &mut Int64Builder| {
            column.append_option(value.copied());
        });
    }
}

impl Cell for Decimal {
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
        match decimals.scale() {
            Some(_) => with(column, |column: &mut Decimal128Builder| {
                column.append_option(value.and_then(|value| decimals.digits(*value)));
            }),
            None => with(column, |column: &mut StringBuilder| {
                column.append_option(value.map(Decimal::to_string));
            }),
        }
    }

    fn misfit(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
        let fits = decimals.scale().is_none() || decimals.digits(*self).is_some();
        (!fits).then(Vec::new)
    }
}

/// The day 1970-01-01, from which Arrow counts days, in chrono's count.
const EPOCH: i32 = 719_163;

impl Cell for NaiveDate {
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with(column, |column: &mut Date32Builder| {
            column.append_option(value.map(|day| day.num_days_from_ce() - EPOCH));
        });
    }
}

impl Cell for DateTime<Utc> {
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with(column, |column: &mut TimestampMicrosecondBuilder| {
            column.append_option(value.map(|moment| {
                // Anything finer is truncated, and a leap second ends before it begins, as in Python's datetimes. The
                // years are 0001 to 9999, which fit.
                let micros = i64::from(moment.timestamp_subsec_micros().min(999_999));
                moment.timestamp() * 1_000_000 + micros
            }));
        });
    }
}

impl<T: WireText> Cell for T {
    fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, _: Decimals) {
        with(column, |column: &mut StringBuilder| {
            column.append_option(value.map(AsRef::<str>::as_ref));
        });
    }
}

/// Makes structs of the response types; see [`__response_models`](crate::__response_models) for the table.
macro_rules! structs {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[$field_doc:meta])* $need:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        $( structs!(@model $model { $( $field: $type = $wire, )+ }); )+
    };

    // Agents come one at a time, and do not form tables.
    (@model Agent $fields:tt) => {};
    (@model AgentProfileResponse $fields:tt) => {};
    (@model RoleAssignment $fields:tt) => {};

    (@model $model:ident { $( $field:ident: $type:ty = $wire:literal, )+ }) => {
        impl Cell for $model {
            fn add(value: Option<&Self>, column: &mut dyn ArrayBuilder, decimals: Decimals) {
                with(column, |column: &mut StructBuilder| {
                    if let [$( $field, )+ extra] = column.field_builders_mut() {
                        $( <$type>::add(value.map(|value| &value.$field), &mut **$field, decimals); )+
                        let undocumented = value.map(Self::extra).filter(|extra| !extra.is_empty());
                        let undocumented = undocumented.map(|extra| Json::from_infallible(extra).into_text());
                        String::add(undocumented.as_ref(), &mut **extra, decimals);
                    }
                    column.append(value.is_some());
                });
            }

            fn misfit(&self, decimals: Decimals) -> Option<Vec<Step<'static>>> {
                $( if let Some(mut path) = self.$field.misfit(decimals) {
                    path.push(Step::Field($wire.into(), None));
                    return Some(path);
                } )+
                None
            }
        }
    };
}

crate::__response_models!(structs);
