//! The response types, generated from the table of response fields: structs, builders, decoding, serialization and `Debug`.
//!
//! serde's derive cannot generate them: `#[serde(flatten)]`, which collects undocumented fields, passes numbers through a
//! binary float and cannot hold raw JSON.
#![allow(
    missing_debug_implementations,
    reason = "the builders hold personal data"
)]

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::{
    json::{
        decode,
        decode_error::{Expected, Step, format_pointer},
        unreadable::{Unreadable, UnreadableField},
    },
    model::field_value::{FieldValue, read_optional, read_optional_outlined, read_outlined},
    model::serde_document::read_document,
    specification::schema::{Field, FieldKind, Model, Presence},
    value::*,
};

/// Defines the response types; see [`__response_models`](crate::__response_models) for the syntax.
macro_rules! models {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[doc = $field_doc:literal])+ $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        enum ModelIndex { $($model),+ }

        $( models!(@model
            $(#[$doc])*
            $model {
                $( $(#[doc = $field_doc])+ $presence $show $field: $type = $wire, )+
            }
        ); )+
    };

    (@model
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[doc = $field_doc:literal])+ $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, bon::Builder)]
        // Setters of string fields accept any type that converts into the field's type. Setters of numbers and dates do not
        // convert, so that the compiler can infer the type of `"10.10".parse()?`.
        #[builder(
            state_mod(vis = "pub"),
            derive(Clone),
            on(Convertible<_>, into),
            on(Vec<_>, into, default),
            on(BTreeMap<_, _>, default)
        )]
        #[non_exhaustive]
        pub struct $model {
            $( $(#[doc = $field_doc])+ pub $field: $type, )+
            #[builder(skip)]
            extra: BTreeMap<String, Json>,
        }

        impl<'de> serde::Deserialize<'de> for $model {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = read_document(deserializer, FieldKind::Model(Self::SCHEMA))?;
                Self::from_json(json).map_err(serde::de::Error::custom)
            }
        }

        impl serde::Serialize for $model {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;

                let mut fields = serializer.serialize_map(None)?;
                $( if !self.is_in_extra($wire) {
                    models!(@write $presence fields self.$field, $wire);
                } )+
                for (name, value) in &self.extra {
                    fields.serialize_entry(name, value)?;
                }
                fields.end()
            }
        }

        impl $model {
            /// The fields as data. For the bindings and the sandbox.
            #[doc(hidden)]
            pub const SCHEMA: &'static Model = &Model {
                name: stringify!($model),
                index: ModelIndex::$model as usize,
                fields: &[$( Field {
                    name: strip_raw_prefix(stringify!($field)),
                    wire: $wire,
                    kind: <$type as FieldValue>::KIND,
                    presence: models!(@presence $presence),
                    is_shown: models!(@is_shown $show),
                    doc: concat!($($field_doc),+),
                } ),+],
            };

            /// Returns the undocumented fields, and the fields that could [not be read](Self::unreadable), by name. To read one
            /// field, use [`get`](Self::get), which still finds it after a later version documents it.
            pub fn extra(&self) -> &BTreeMap<String, Json> {
                &self.extra
            }

            /// Returns the optional fields at any depth that could not be read. There are none unless the model was read with
            /// [`Unreadable::Skip`].
            ///
            /// The original JSON of such a field stays in the model: [`extra`](Self::extra) and [`get`](Self::get) return it, and
            /// `Serialize` writes it.
            pub fn unreadable(&self) -> Vec<UnreadableField> {
                let mut unreadable = Vec::new();
                FieldValue::add_unreadable(self, &mut Vec::new(), &mut unreadable);
                unreadable
            }

            /// Returns whether a documented field could not be read, so that its value is in `extra`.
            fn is_in_extra(&self, name: &str) -> bool {
                !self.extra.is_empty() && self.extra.contains_key(name)
            }

            /// Returns a field, documented or not, by its JSON name; `None` if it is missing or null. A documented list or map
            /// that is missing is empty. A field that could not be read has its original JSON.
            ///
            /// Each call serializes the field.
            pub fn get(&self, name: &str) -> Option<Json> {
                match name {
                    $( $wire if !self.is_in_extra($wire) => Json::from_serialize(&self.$field).ok(), )+
                    _ => self.extra.get(name).cloned(),
                }
                .filter(|json| json.kind() != JsonKind::Null)
            }

            /// Sets a field, documented or not, by its JSON name. The whole model is written as JSON and read again: a
            /// documented field must therefore have a valid value. If the model has [unreadable](Self::unreadable) fields,
            /// unreadable values are skipped here too.
            ///
            /// # Errors
            /// If the field is documented and cannot have this value, as for [`from_json`](Self::from_json).
            pub fn with(self, name: &str, value: impl Into<Json>) -> Result<Self, $crate::DecodeError> {
                let unreadable = if self.unreadable().is_empty() {
                    Unreadable::Error
                } else {
                    Unreadable::Skip
                };
                Self::from_json_with(json_with_field(&self, name, &value.into()), unreadable)
            }

            /// Reads the model from a JSON document.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError) has the path of the value at fault, and the document.
            pub fn from_json(body: impl AsRef<[u8]>) -> Result<Self, $crate::DecodeError> {
                Self::from_json_with(body, Unreadable::Error)
            }

            /// Reads the model from a JSON document, and can skip optional fields that cannot be read.
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json), except for skipped fields.
            pub fn from_json_with(
                body: impl AsRef<[u8]>,
                unreadable: Unreadable,
            ) -> Result<Self, $crate::DecodeError> {
                Self::from_json_cancellable(body, unreadable, None)
            }

            /// Reads the model as [`from_json_with`](Self::from_json_with) does, but stops when `should_continue`, which is
            /// called every 64 KB, returns false.
            #[doc(hidden)]
            pub fn from_json_cancellable(
                body: impl AsRef<[u8]>,
                unreadable: Unreadable,
                should_continue: Option<&dyn Fn() -> bool>,
            ) -> Result<Self, $crate::DecodeError> {
                let kind = FieldKind::Model(Self::SCHEMA);
                decode::decode(body.as_ref(), kind, unreadable, should_continue, FieldValue::read)
            }

            /// Reads a JSON array of these models.
            ///
            /// The array is one document, with the limit of a million values.
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json); the path begins with the index, such as `[2].id`.
            pub fn list_from_json(body: impl AsRef<[u8]>) -> Result<Vec<Self>, $crate::DecodeError> {
                let kind = FieldKind::ModelList(Self::SCHEMA);
                decode::decode(body.as_ref(), kind, Unreadable::Error, None, FieldValue::read)
            }
        }

        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($model));
                $( models!(@debug $show out self $field); )+
                let unreadable = unreadable_field_names(Self::SCHEMA, &self.extra);
                if self.extra.len() > unreadable.len() {
                    let hidden = self.extra.len() - unreadable.len();
                    out.field("extra", &format_args!("<{hidden} hidden>"));
                }
                if !unreadable.is_empty() {
                    out.field("unreadable", &unreadable);
                }
                out.finish()
            }
        }

        impl FieldValue for $model {
            const KIND: FieldKind = FieldKind::Model(Self::SCHEMA);

            #[inline(always)]
            fn read(lexer: &mut $crate::json::lexer::Lexer<'_>) -> $crate::json::lexer::LexResult<Self> {
                $( let mut $field = models!(@initial $presence $type); )+
                let mut extra = BTreeMap::new();
                $crate::__read_fields!(lexer, {
                    $( $wire => $field = models!(@read_in_order $presence lexer $type = $wire, extra), $field = models!(@read_outlined $presence lexer $type = $wire, extra); )+
                    name => {
                        let value = Json::from_raw(lexer.read_raw()?);
                        extra.insert(name.into_owned(), value);
                    },
                });
                Ok($model {
                    $( $field: models!(@field_value $presence $field), )+
                    extra,
                })
            }

            fn add_unreadable<'a>(&'a self, path: &mut Vec<Step<'a>>, unreadable: &mut Vec<UnreadableField>) {
                $(
                    path.push(Step::Field($wire.into(), None));
                    match self.extra.get($wire) {
                        Some(json) => unreadable.push(UnreadableField {
                            pointer: format_pointer(path),
                            expected: Expected::from_kind(<$type as FieldValue>::KIND),
                            json: json.clone(),
                        }),
                        None => self.$field.add_unreadable(path, unreadable),
                    }
                    path.pop();
                )+
            }
        }

        models!(@default $model [$($presence)+]);
    };

    // Implements `Default`, unless the type has a required field.
    (@default $model:ident [required $($presence:ident)*]) => {};
    (@default $model:ident [$lenient:ident $($presence:ident)*]) => {
        models!(@default $model [$($presence)*]);
    };
    (@default $model:ident []) => {
        impl Default for $model {
            fn default() -> Self {
                Self::builder().build()
            }
        }
    };

    (@initial required $type:ty) => { None::<$type> };
    (@initial $lenient:ident $type:ty) => { <$type>::default() };

    (@read_in_order required $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        Some(<$type as FieldValue>::read($lexer)?)
    };
    (@read_in_order $lenient:ident $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        read_optional::<$type>($lexer, $wire, &mut $extra)?
    };

    (@read_outlined required $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        Some(read_outlined::<$type>($lexer)?)
    };
    (@read_outlined $lenient:ident $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        read_optional_outlined::<$type>($lexer, $wire, &mut $extra)?
    };

    (@field_value required $field:ident) => { $field.ok_or($crate::json::lexer::LexError)? };
    (@field_value $lenient:ident $field:ident) => { $field };

    (@write optional $fields:ident $self:ident.$field:ident, $wire:literal) => {
        if !FieldValue::is_none(&$self.$field) {
            models!(@write required $fields $self.$field, $wire);
        }
    };
    (@write $always:ident $fields:ident $self:ident.$field:ident, $wire:literal) => {
        $fields.serialize_entry($wire, &$self.$field)?
    };

    (@presence required) => { Presence::Required };
    (@presence optional) => { Presence::Optional };
    (@presence nullable) => { Presence::Nullable };

    (@is_shown shown) => { true };
    (@is_shown hidden) => { false };

    (@debug hidden $out:ident $self:ident $field:ident) => {
        $out.field(strip_raw_prefix(stringify!($field)), &format_args!("<hidden>"))
    };
    (@debug $visible:ident $out:ident $self:ident $field:ident) => {
        $out.field(strip_raw_prefix(stringify!($field)), &$self.$field)
    };
}

/// Returns the documented fields that could not be read, whose values are in `extra`.
fn unreadable_field_names(
    model: &'static Model,
    extra: &BTreeMap<String, Json>,
) -> Vec<&'static str> {
    let fields = model.fields.iter();
    let unreadable = fields.filter(|field| extra.contains_key(field.wire));
    unreadable.map(|field| field.name).collect()
}

/// Appends a field to the JSON of a model or a request. If the JSON has the field already, the field then occurs twice, and the
/// reader uses the last occurrence.
pub(super) fn json_with_field(model: &impl serde::Serialize, name: &str, value: &Json) -> String {
    // Serializing models and names cannot fail; a model without fields is `{}`.
    let mut json = Json::from_infallible(model).into_text();
    json.pop();
    let separator = if json.len() > 1 { "," } else { "" };
    format!("{json}{separator}{}:{value}}}", Json::string(name))
}

/// Removes the prefix `r#` from a Rust identifier.
const fn strip_raw_prefix(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

crate::__response_models!(models);
