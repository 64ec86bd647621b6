//! The field table as data: what each field of each response type holds, and whether it must be there.
//!
//! For what needs no Rust types: saying what is wrong with a document, the classes of the Python package, and the
//! sandbox's readings. Hidden, because it is not for use by others.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::value::*;

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// A string.
    Text,
    /// An identifier, which is an opaque string.
    Identifier,
    /// A string of an open set, which has this name.
    OpenSet(&'static str),
    /// True or false.
    Boolean,
    /// A 64-bit integer.
    Integer,
    /// An exact decimal number.
    Decimal,
    /// A day.
    Date,
    /// A moment.
    Timestamp,
    /// A free-form JSON object.
    Object,
    /// Strings by name.
    Strings,
    /// Another model.
    One(&'static Model),
    /// Any number of another model.
    Many(&'static Model),
}

/// Whether a field must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there, and must not be null.
    Required,
    /// It may be missing or null, and is then not written.
    Optional,
    /// It may be missing or null, and is then written as null.
    Nullable,
}

/// One field of a model.
#[derive(Debug)]
pub struct Field {
    /// The name in Rust and in Python.
    pub name: &'static str,
    /// The name on the wire.
    pub wire: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether it must be there.
    pub presence: Presence,
    /// Whether its value is shown: a value that is personal, or of unknown content, is not.
    pub is_shown: bool,
    /// Its description.
    pub doc: &'static str,
}

/// A response type.
#[derive(Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Its position in the table, from 0.
    pub index: usize,
    /// Its fields, in the order of the specification.
    pub fields: &'static [Field],
}

/// A type of the field table: what a field of that type holds.
pub(crate) trait FieldType {
    /// What it holds.
    const KIND: FieldKind;
}

impl<T: FieldType> FieldType for Option<T> {
    const KIND: FieldKind = T::KIND;
}

impl<T: WireText> FieldType for T {
    const KIND: FieldKind = match (T::OPEN_SET, T::IS_IDENTIFIER) {
        (Some(name), _) => FieldKind::OpenSet(name),
        (None, true) => FieldKind::Identifier,
        (None, false) => FieldKind::Text,
    };
}

macro_rules! field_types {
    ($($of:ty: $kind:ident),+ $(,)?) => {
        $( impl FieldType for $of { const KIND: FieldKind = FieldKind::$kind; } )+
    };
}

field_types! {
    bool: Boolean,
    i64: Integer,
    Decimal: Decimal,
    NaiveDate: Date,
    DateTime<Utc>: Timestamp,
    Json: Object,
    BTreeMap<String, String>: Strings,
}

/// The name of an attribute without Rust's mark of a keyword.
const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

macro_rules! schemas {
    ($( $(#[$about:meta])* $model:ident {
        $( $(#[doc = $doc:literal])+ $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
    } )+) => {
        enum Index { $($model),+ }

        $(
            /// The type in the table, which has the model's name.
            pub(crate) struct $model;

            impl $model {
                pub(crate) const MODEL: &'static Model = &Model {
                    name: stringify!($model),
                    index: Index::$model as usize,
                    fields: &[$( Field {
                        name: plain(stringify!($field)),
                        wire: $wire,
                        kind: <$type as FieldType>::KIND,
                        presence: schemas!(@presence $presence),
                        is_shown: schemas!(@is_shown $show),
                        doc: concat!($($doc),+),
                    } ),+],
                };
            }

            impl FieldType for $model {
                const KIND: FieldKind = FieldKind::One($model::MODEL);
            }

            impl FieldType for Vec<$model> {
                const KIND: FieldKind = FieldKind::Many($model::MODEL);
            }
        )+
    };

    (@presence required) => { Presence::Required };
    (@presence optional) => { Presence::Optional };
    (@presence nullable) => { Presence::Nullable };

    (@is_shown shown) => { true };
    (@is_shown hidden) => { false };
}

crate::__response_models!(schemas);
