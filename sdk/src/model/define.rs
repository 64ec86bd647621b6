//! The response types, generated from the table: the structs, their builders, decoding, serialization and `Debug`.
//!
//! serde's derive cannot do this: `#[serde(flatten)]`, its way to keep undocumented fields, passes
//! numbers through a binary float and cannot hold raw JSON.
#![allow(
    missing_debug_implementations,
    reason = "the builders show nothing: what they hold may be personal"
)]

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::{
    json::{
        decode,
        decode_error::{Expected, Step, format_pointer},
        unreadable::{Unreadable, UnreadableField},
    },
    model::any_format::document,
    model::field::{FieldValue, lex_apart, lex_lenient, lex_lenient_apart},
    specification::schema::{Field, FieldKind, Model, Presence},
    value::*,
};

/// Defines the response types; see [`__response_models`](crate::__response_models) for the columns.
macro_rules! models {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[doc = $field_doc:literal])+ $need:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        enum Index { $($model),+ }

        $( models!(@model
            $(#[$doc])*
            $model {
                $( $(#[doc = $field_doc])+ $need $show $field: $type = $wire, )+
            }
        ); )+
    };

    (@model
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[doc = $field_doc:literal])+ $need:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, bon::Builder)]
        // Fields that are strings accept anything that converts into one. Numbers and dates are taken as they
        // are, so that the type of `"10.10".parse()?` can be inferred.
        #[builder(
            state_mod(vis = "pub"),
            derive(Clone),
            on(Word<_>, into),
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
                let json = document(deserializer, FieldKind::Model(Self::SCHEMA))?;
                Self::from_json(json).map_err(serde::de::Error::custom)
            }
        }

        impl serde::Serialize for $model {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;

                let mut fields = serializer.serialize_map(None)?;
                $( if !self.holds_apart($wire) {
                    models!(@write $need fields self.$field, $wire);
                } )+
                for (name, value) in &self.extra {
                    fields.serialize_entry(name, value)?;
                }
                fields.end()
            }
        }

        impl $model {
            /// The fields as data.
            #[doc(hidden)]
            pub const SCHEMA: &'static Model = &Model {
                name: stringify!($model),
                index: Index::$model as usize,
                fields: &[$( Field {
                    name: plain(stringify!($field)),
                    wire: $wire,
                    kind: <$type as FieldValue>::KIND,
                    presence: models!(@presence $need),
                    is_shown: models!(@is_shown $show),
                    doc: concat!($($field_doc),+),
                } ),+],
            };

            /// The fields that no other field holds, by name: those that this version of dealkit does not know, and those that
            /// could [not be read](Self::unreadable). For one of them, [`get`](Self::get) is better: it still finds the field
            /// when a later version knows it, and this no longer has it.
            pub fn extra(&self) -> &BTreeMap<String, Json> {
                &self.extra
            }

            /// The optional fields that could not be read, here and at any depth: there are some only where
            /// [`Unreadable::Skip`] was asked for. What was there instead is also written again with the model.
            ///
            /// Such a field is kept as an undocumented one is: [`extra`](Self::extra) and [`get`](Self::get) have what was
            /// there, as JSON.
            pub fn unreadable(&self) -> Vec<UnreadableField> {
                let mut found = Vec::new();
                FieldValue::add_unreadable(self, &mut Vec::new(), &mut found);
                found
            }

            /// Whether a documented field could not be read, and is among the undocumented ones.
            fn holds_apart(&self, name: &str) -> bool {
                !self.extra.is_empty() && self.extra.contains_key(name)
            }

            /// A field as JSON by its name on the wire, documented or not; `None` if there is none, or null. A documented
            /// list or map that was absent is empty, and one that could not be read is what was there instead.
            ///
            /// The JSON is written anew, with everything that is nested in it.
            pub fn get(&self, name: &str) -> Option<Json> {
                match name {
                    $( $wire if !self.holds_apart($wire) => Json::from_serialize(&self.$field).ok(), )+
                    _ => self.extra.get(name).cloned(),
                }
                .filter(|json| json.kind() != JsonKind::Null)
            }

            /// This with a field set by its name on the wire, documented or not. Everything is written as JSON and read
            /// again, so a documented field obeys the same rules as in a response; if some could
            /// [not be read](Self::unreadable), this is read in the same way, without them.
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json), if the field is documented and cannot have this value.
            pub fn with(self, name: &str, value: impl Into<Json>) -> Result<Self, $crate::DecodeError> {
                let unreadable = if self.unreadable().is_empty() {
                    Unreadable::Error
                } else {
                    Unreadable::Skip
                };
                Self::from_json_with(with_field(&self, name, &value.into()), unreadable)
            }

            /// Decodes one from a JSON document.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError) names the path of the value that could not be decoded
            /// and keeps the document.
            pub fn from_json(body: impl AsRef<[u8]>) -> Result<Self, $crate::DecodeError> {
                Self::from_json_with(body, Unreadable::Error)
            }

            /// [`from_json`](Self::from_json), with a choice of what becomes of an optional field that cannot be read.
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json), except for what is skipped.
            pub fn from_json_with(
                body: impl AsRef<[u8]>,
                unreadable: Unreadable,
            ) -> Result<Self, $crate::DecodeError> {
                Self::from_json_cancellable(body, unreadable, None)
            }

            /// [`from_json_with`](Self::from_json_with) for a document that may be large: `should_continue` is called every 64 KB, and
            /// stops it.
            #[doc(hidden)]
            pub fn from_json_cancellable(
                body: impl AsRef<[u8]>,
                unreadable: Unreadable,
                should_continue: Option<&dyn Fn() -> bool>,
            ) -> Result<Self, $crate::DecodeError> {
                let kind = FieldKind::Model(Self::SCHEMA);
                decode::decode(body.as_ref(), kind, unreadable, should_continue, FieldValue::lex)
            }

            /// Decodes a JSON array of them.
            ///
            /// The array is one document and has the limit of one (a million values).
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json); the path begins with the index, such as `[2].id`.
            pub fn list_from_json(body: impl AsRef<[u8]>) -> Result<Vec<Self>, $crate::DecodeError> {
                let kind = FieldKind::ModelList(Self::SCHEMA);
                decode::decode(body.as_ref(), kind, Unreadable::Error, None, FieldValue::lex)
            }
        }

        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($model));
                $( models!(@debug $show out self $field); )+
                let unreadable = unreadable_names(Self::SCHEMA, &self.extra);
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
            fn lex(lexer: &mut $crate::json::lexer::Lexer<'_>) -> $crate::json::lexer::LexResult<Self> {
                $( let mut $field = models!(@nothing $need $type); )+
                let mut extra = BTreeMap::new();
                $crate::__read_fields!(lexer, {
                    $( $wire => $field = models!(@lex $need lexer $type = $wire, extra), $field = models!(@lex_apart $need lexer $type = $wire, extra); )+
                    name => {
                        let value = Json::from_raw(lexer.read_raw()?);
                        extra.insert(name.into_owned(), value);
                    },
                });
                Ok($model {
                    $( $field: models!(@lexed $need $field), )+
                    extra,
                })
            }

            fn add_unreadable<'a>(&'a self, path: &mut Vec<Step<'a>>, found: &mut Vec<UnreadableField>) {
                $(
                    path.push(Step::Field($wire.into(), None));
                    match self.extra.get($wire) {
                        Some(json) => found.push(UnreadableField {
                            pointer: format_pointer(path),
                            expected: Expected::from_kind(<$type as FieldValue>::KIND),
                            json: json.clone(),
                        }),
                        None => self.$field.add_unreadable(path, found),
                    }
                    path.pop();
                )+
            }
        }

        models!(@default $model [$($need)+]);
    };

    // A type with a required field has no default.
    (@default $model:ident [required $($need:ident)*]) => {};
    (@default $model:ident [$lenient:ident $($need:ident)*]) => {
        models!(@default $model [$($need)*]);
    };
    (@default $model:ident []) => {
        impl Default for $model {
            fn default() -> Self {
                Self::builder().build()
            }
        }
    };

    (@nothing required $type:ty) => { None::<$type> };
    (@nothing $lenient:ident $type:ty) => { <$type>::default() };

    (@lex required $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        Some(<$type as FieldValue>::lex($lexer)?)
    };
    (@lex $lenient:ident $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        lex_lenient::<$type>($lexer, $wire, &mut $extra)?
    };

    (@lex_apart required $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        Some(lex_apart::<$type>($lexer)?)
    };
    (@lex_apart $lenient:ident $lexer:ident $type:ty = $wire:literal, $extra:ident) => {
        lex_lenient_apart::<$type>($lexer, $wire, &mut $extra)?
    };

    (@lexed required $field:ident) => { $field.ok_or($crate::json::lexer::LexError)? };
    (@lexed $lenient:ident $field:ident) => { $field };

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
        $out.field(plain(stringify!($field)), &format_args!("<hidden>"))
    };
    (@debug $visible:ident $out:ident $self:ident $field:ident) => {
        $out.field(plain(stringify!($field)), &$self.$field)
    };
}

/// The documented fields that could not be read, which are kept among the undocumented ones.
fn unreadable_names(model: &'static Model, extra: &BTreeMap<String, Json>) -> Vec<&'static str> {
    let fields = model.fields.iter();
    let unreadable = fields.filter(|field| extra.contains_key(field.wire));
    unreadable.map(|field| field.name).collect()
}

/// The JSON of a model with one more field; of two with the same name, the last one counts.
fn with_field(model: &impl serde::Serialize, name: &str, value: &Json) -> String {
    // Models and names always serialize, and a model without any field is `{}`.
    let mut json = Json::from_infallible(model).into_text();
    json.pop();
    let separator = if json.len() > 1 { "," } else { "" };
    format!("{json}{separator}{}:{value}}}", Json::string(name))
}

/// The name of an attribute without Rust's mark of a keyword.
const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

crate::__response_models!(models);
