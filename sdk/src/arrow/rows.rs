//! The columns of a deal and of the models in it, derived from the field table.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use chrono::{DateTime, NaiveDate, Utc};

use super::{
    cell::{Cell, Extra, complete, lex_field},
    column::{Column, Text, structs},
    decimals::Decimals,
};
use crate::{
    json::lexer::{Lexed, Lexer},
    model::*,
    value::*,
};

/// The column of undocumented fields in every struct.
const EXTRA: &str = "extra";

/// Makes columns of the response types; see [`__response_models`](crate::__response_models) for the table.
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[$field_doc:meta])* $need:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        $( rows!(@model $model {
            $( $need $field: $type = $wire, )+
        }); )+
    };

    // Agents come one at a time, and do not form tables.
    (@model Agent $fields:tt) => {};
    (@model AgentProfileResponse $fields:tt) => {};
    (@model RoleAssignment $fields:tt) => {};

    (@model $model:ident {
        $( $need:ident $field:ident: $type:ty = $wire:literal, )+
    }) => {
        const _: () = {
            /// The struct's columns.
            pub(crate) struct Columns {
                nulls: NullBufferBuilder,
                $( $field: <$type as Cell>::Column, )+
                extra: Text,
            }

            impl Columns {
                fn fields(decimals: Decimals) -> Fields {
                    Fields::from(vec![
                        $( Field::new(
                            stringify!($field).trim_start_matches("r#"),
                            <<$type as Cell>::Column as Column>::data_type(decimals),
                            <$type as Cell>::IS_NULLABLE,
                        ), )+
                        Field::new(EXTRA, DataType::Utf8, true),
                    ])
                }
            }

            impl Column for Columns {
                fn new(decimals: Decimals) -> Self {
                    Self {
                        nulls: NullBufferBuilder::new(0),
                        $( $field: Column::new(decimals), )+
                        extra: Column::new(decimals),
                    }
                }

                fn data_type(decimals: Decimals) -> DataType {
                    DataType::Struct(Self::fields(decimals))
                }

                #[inline]
                fn len(&self) -> usize {
                    self.nulls.len()
                }

                fn push_nothing(&mut self) {
                    self.nulls.append_null();
                    $( self.$field.push_nothing(); )+
                    self.extra.push_nothing();
                }

                fn truncate(&mut self, len: usize) {
                    self.nulls.truncate(len);
                    $( self.$field.truncate(len); )+
                    self.extra.truncate(len);
                }

                fn finish(&mut self, decimals: Decimals) -> Result<ArrayRef, ArrowError> {
                    let columns = vec![
                        $( self.$field.finish(decimals)?, )+
                        self.extra.finish(decimals)?,
                    ];
                    structs(Self::fields(decimals), columns, &mut self.nulls)
                }
            }

            impl Cell for $model {
                type Column = Columns;

                fn lex(lexer: &mut Lexer<'_>, columns: &mut Columns) -> Lexed<()> {
                    let row = columns.len();
                    let mut extra = Extra::new();
                    $crate::__read_fields!(lexer, {
                        $(
                            $wire => rows!(@lex $need lexer, columns.$field: $type = $wire, row, extra),
                            rows!(@lex $need lexer, columns.$field: $type = $wire, row, extra);
                        )+
                        name => {
                            let value = lexer.raw()?.get();
                            extra.insert(name, value);
                        },
                    });
                    $( complete::<$type>(&mut columns.$field, row, rows!(@is_required $need))?; )+
                    push_extra(&mut columns.extra, &extra);
                    columns.nulls.append_non_null();
                    Ok(())
                }
            }
        };
    };

    (@lex $need:ident $lexer:ident, $columns:ident.$field:ident: $type:ty = $wire:literal, $row:ident, $extra:ident) => {
        lex_field::<$type>($lexer, &mut $columns.$field, $row, rows!(@is_required $need), $wire, &mut $extra)?
    };

    (@is_required required) => { true };
    (@is_required $lenient:ident) => { false };
}

crate::__response_models!(rows);

/// Adds the undocumented fields as one JSON object, or null if there are none.
fn push_extra(column: &mut Text, fields: &Extra<'_>) {
    if fields.is_empty() {
        return column.push_nothing();
    }
    let json = column.begun();
    let mut before = '{';
    for (name, value) in fields {
        json.push(before);
        json.push_str(&serde_json::Value::from(&**name).to_string());
        json.push(':');
        json.push_str(value);
        before = ',';
    }
    json.push('}');
    column.end();
}
