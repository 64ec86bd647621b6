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
    contract::schema::{Field, FieldKind, Model, Presence},
    json::decode,
    model::field::{FieldValue, Lenient, Required, apart, lex_lenient},
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
                struct Fields;

                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $model;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut fields: A) -> Result<$model, A::Error> {
                        $( let mut $field: Option<$type> = None; )+
                        let mut extra = BTreeMap::new();
                        while let Some($crate::value::Name(name)) = fields.next_key()? {
                            match &*name {
                                $( $wire => $field = Some(models!(@decoded $need fields $type)), )+
                                _ => {
                                    extra.insert(name.into_owned(), fields.next_value()?);
                                }
                            }
                        }
                        Ok($model {
                            $( $field: models!(@missing $need $field $wire), )+
                            extra,
                        })
                    }
                }

                deserializer
                    .deserialize_map(Fields)
                    .map_err($crate::value::expected("an object"))
            }
        }

        impl serde::Serialize for $model {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;

                let mut fields = serializer.serialize_map(None)?;
                $( models!(@write $need fields self.$field, $wire); )+
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

            /// The fields that this version of dealkit does not know, by name. For one of them, [`get`](Self::get) is
            /// better: it still finds the field when a later version knows it, and this no longer has it.
            pub fn extra(&self) -> &BTreeMap<String, Json> {
                &self.extra
            }

            /// A field as JSON by its name on the wire, documented or not; `None` if there is none, or null. A documented
            /// list or map that was absent is empty.
            ///
            /// The JSON is written anew, with everything that is nested in it.
            pub fn get(&self, name: &str) -> Option<Json> {
                match name {
                    $( $wire => Json::from_serialize(&self.$field).ok(), )+
                    _ => self.extra.get(name).cloned(),
                }
                .filter(|json| json.kind() != JsonKind::Null)
            }

            /// This with a field set by its name on the wire, documented or not. Everything is written as JSON and read
            /// again, so a documented field obeys the same rules as in a response.
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json), if the field is documented and cannot have this value.
            pub fn with(self, name: &str, value: impl Into<Json>) -> Result<Self, $crate::DecodeError> {
                Self::from_json(with_field(&self, name, &value.into()))
            }

            /// Decodes one from a JSON document.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError) names the path of the value that could not be decoded
            /// and keeps the document.
            pub fn from_json(body: impl AsRef<[u8]>) -> Result<Self, $crate::DecodeError> {
                let kind = FieldKind::One(Self::SCHEMA);
                decode::read(body.as_ref(), kind, None, FieldValue::lex)
            }

            /// [`from_json`](Self::from_json) for a document that may be large: `go_on` is asked every 64 KB, and stops it.
            #[doc(hidden)]
            pub fn from_json_while(
                body: impl AsRef<[u8]>,
                go_on: &dyn Fn() -> bool,
            ) -> Result<Self, $crate::DecodeError> {
                let kind = FieldKind::One(Self::SCHEMA);
                decode::read(body.as_ref(), kind, Some(go_on), FieldValue::lex)
            }

            /// Decodes a JSON array of them.
            ///
            /// The array is one document and has the limit of one (a million values); for
            /// more, [`from_json_lines`](Self::from_json_lines) reads one at a time.
            ///
            /// # Errors
            /// As for [`from_json`](Self::from_json); the path begins with the index, such as `[2].id`.
            pub fn list_from_json(body: impl AsRef<[u8]>) -> Result<Vec<Self>, $crate::DecodeError> {
                let kind = FieldKind::Many(Self::SCHEMA);
                decode::read(body.as_ref(), kind, None, FieldValue::lex)
            }

            /// Decodes one from each line (NDJSON, JSON Lines), incrementally. Wrap a file in a `std::io::BufReader`.
            ///
            /// # Errors
            /// Each item is a separate result: a line that cannot be decoded is an error with its line number,
            /// and the next line is still read.
            pub fn from_json_lines<R: std::io::BufRead>(reader: R) -> $crate::JsonLines<R, Self> {
                $crate::JsonLines::new(reader, |line| Self::from_json(line))
            }
        }

        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($model));
                $( models!(@debug $show out self $field); )+
                if !self.extra.is_empty() {
                    out.field("extra", &format_args!("<{} hidden>", self.extra.len()));
                }
                out.finish()
            }
        }

        impl FieldValue for $model {
            const KIND: FieldKind = FieldKind::One(Self::SCHEMA);

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            #[inline(always)]
            fn lex(lexer: &mut $crate::json::lexer::Lexer<'_>) -> $crate::json::lexer::Lexed<Self> {
                $( let mut $field = models!(@nothing $need $type); )+
                let mut extra = BTreeMap::new();
                $crate::__read_fields!(lexer, {
                    $( $wire => $field = models!(@lex $need lexer $type), $field = models!(@lex_apart $need lexer $type); )+
                    name => {
                        let value = Json::from_raw(lexer.raw()?);
                        extra.insert(name.into_owned(), value);
                    },
                });
                Ok($model {
                    $( $field: models!(@lexed $need $field), )+
                    extra,
                })
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

    (@decoded required $fields:ident $type:ty) => { $fields.next_value::<Required<$type>>()?.0 };
    (@decoded $lenient:ident $fields:ident $type:ty) => { $fields.next_value::<Lenient<$type>>()?.0 };

    (@missing required $field:ident $wire:literal) => {
        $field.ok_or_else(|| serde::de::Error::missing_field($wire))?
    };
    (@missing $lenient:ident $field:ident $wire:literal) => { $field.unwrap_or_default() };

    (@nothing required $type:ty) => { None::<$type> };
    (@nothing $lenient:ident $type:ty) => { <$type>::default() };

    (@lex required $lexer:ident $type:ty) => { Some(<$type as FieldValue>::lex($lexer)?) };
    (@lex $lenient:ident $lexer:ident $type:ty) => { lex_lenient::<$type>($lexer)? };

    (@lex_apart required $lexer:ident $type:ty) => {
        Some(apart($lexer, <$type as FieldValue>::lex)?)
    };
    (@lex_apart $lenient:ident $lexer:ident $type:ty) => {
        apart($lexer, lex_lenient::<$type>)?
    };

    (@lexed required $field:ident) => { $field.ok_or($crate::json::lexer::Refused)? };
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

/// The JSON of a model with one more field; of two with the same name, the last one counts.
fn with_field(model: &impl serde::Serialize, name: &str, value: &Json) -> String {
    // Models and names always serialize, and a model without any field is `{}`.
    let mut json = Json::written(model).into_text();
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
