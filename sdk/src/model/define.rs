//! `model!`: one statement of a response type, from which its reading, writing and `Debug` follow.
//!
//! serde's derive cannot do this job: `#[serde(flatten)]`, its way to keep unknown members, passes
//! numbers through a binary float and cannot hold raw JSON.

/// Defines a response type.
///
/// Each field is `need show name: Type = "wireName"`:
///
/// * need: `required` (must be there and not null), `optional` (missing or null reads as the type's
///   default, and an `Option` that is `None` is not written), `nullable` (the same, but written as null);
/// * show: `shown` or `hidden` in `Debug`. What is personal or of unknown content is hidden.
macro_rules! model {
    (
        $(#[$doc:meta])*
        pub struct $model:ident {
            $( $(#[$field_doc:meta])* $need:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $model {
            $( $(#[$field_doc])* pub $field: $type, )+
            /// Members that the specification does not show, by name.
            pub extra: std::collections::BTreeMap<String, $crate::Json>,
        }

        impl<'de> serde::Deserialize<'de> for $model {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members;

                impl<'de> serde::de::Visitor<'de> for Members {
                    type Value = $model;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<$model, A::Error> {
                        $( let mut $field: Option<$type> = None; )+
                        let mut extra = std::collections::BTreeMap::new();
                        while let Some($crate::value::Name(name)) = members.next_key()? {
                            match &*name {
                                $( $wire => $field = Some(members.next_value_seed(model!(@seed $need $type))?), )+
                                _ => {
                                    extra.insert(name.into_owned(), members.next_value()?);
                                }
                            }
                        }
                        Ok($model {
                            $( $field: model!(@missing $need $field $wire), )+
                            extra,
                        })
                    }
                }

                deserializer.deserialize_map(Members)
            }
        }

        impl serde::Serialize for $model {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;

                let mut members = serializer.serialize_map(None)?;
                $( model!(@write $need members self.$field, $wire); )+
                for (name, value) in &self.extra {
                    // A field of the type wins over an `extra` of the same name: no member is written twice.
                    if !Self::FIELDS.contains(&name.as_str()) {
                        members.serialize_entry(name, value)?;
                    }
                }
                members.end()
            }
        }

        impl $model {
            /// The wire names of the fields.
            pub(crate) const FIELDS: &'static [&'static str] = &[$($wire),+];

            /// Reads one from a JSON document.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError) names the path of what could not be read and keeps the
            /// document.
            pub fn from_json(body: impl AsRef<[u8]>) -> Result<Self, $crate::DecodeError> {
                $crate::decode::from_json(body.as_ref())
            }
        }

        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($model));
                $( model!(@debug $show out self $field); )+
                if !self.extra.is_empty() {
                    out.field("extra", &format_args!("<{} hidden>", self.extra.len()));
                }
                out.finish()
            }
        }

        $crate::model::field::field_by_serde!($model);
    };

    (@seed required $type:ty) => { $crate::model::field::Required::<$type>::seed() };
    (@seed $lenient:ident $type:ty) => { $crate::model::field::Lenient::<$type>::seed() };

    (@missing required $field:ident $wire:literal) => {
        $field.ok_or_else(|| serde::de::Error::missing_field($wire))?
    };
    (@missing $lenient:ident $field:ident $wire:literal) => { $field.unwrap_or_default() };

    (@write optional $members:ident $self:ident.$field:ident, $wire:literal) => {
        if !$crate::model::field::Field::is_none(&$self.$field) {
            model!(@write required $members $self.$field, $wire);
        }
    };
    (@write $always:ident $members:ident $self:ident.$field:ident, $wire:literal) => {
        $members.serialize_entry($wire, &$crate::model::field::Written(&$self.$field))?
    };

    (@debug shown $out:ident $self:ident $field:ident) => {
        $out.field(stringify!($field).trim_start_matches("r#"), &$self.$field)
    };
    (@debug hidden $out:ident $self:ident $field:ident) => {
        $out.field(stringify!($field).trim_start_matches("r#"), &format_args!("<hidden>"))
    };
}
