//! Extensible enums: string fields whose values the specification does not list, except for at most one sample.

use std::marker::PhantomData;

use compact_str::CompactString;

/// The content of the variant `Other`: an undocumented value of the extensible enum `Enum`, unchanged.
///
/// Other crates can neither name this type nor read its content. A program that matched on the string inside `Other` would
/// silently take another branch once a later version of dealkit makes the value a variant. Only dealkit creates an `Other`,
/// after checking that the value is undocumented. A documented value is therefore never an `Other`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(
    missing_debug_implementations,
    reason = "only the enum around it is shown"
)]
pub struct UndocumentedValue<Enum>(CompactString, PhantomData<fn() -> Enum>);

impl<Enum> UndocumentedValue<Enum> {
    /// Wraps a value. Only for [`extensible_enum`], which checks first that the value is undocumented.
    #[inline]
    pub(crate) fn new(text: impl Into<CompactString>) -> Self {
        Self(text.into(), PhantomData)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Defines an extensible enum: a variant for each documented value, and `Other` for any other string.
macro_rules! extensible_enum {
    ($(#[$doc:meta])* $name:ident {
        $( $(#[$value_doc:meta])* $value:ident = $wire:expr, )*
    }) => {
        $(#[$doc])*
        ///
        /// Compare an undocumented value as a string: `status == "SOMETHING"` stays true when a later version adds a
        /// variant for it.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$value_doc])* $value, )*
            /// Any other value, unchanged. Its content is private, because a later version may make it a variant: compare
            /// the enum itself with strings, display it, or read it with [`as_str`](Self::as_str).
            Other($crate::value::UndocumentedValue<Self>),
        }

        impl $name {
            /// Every documented value.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// Returns the string as it is in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$value => $wire, )*
                    Self::Other(value) => value.as_str(),
                }
            }

            /// Returns the variant of a documented string.
            #[allow(unused_variables, reason = "some enums have no documented value")]
            #[inline]
            fn from_documented(text: &str) -> Option<Self> {
                $(
                    if text == $wire {
                        return Some(Self::$value);
                    }
                )*
                None
            }
        }

        impl From<&str> for $name {
            #[inline]
            fn from(text: &str) -> Self {
                Self::from_documented(text)
                    .unwrap_or_else(|| Self::Other($crate::value::UndocumentedValue::new(text)))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from_documented(&text)
                    .unwrap_or_else(|| Self::Other($crate::value::UndocumentedValue::new(text)))
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        $crate::value::impl_string_traits!($name);

        impl $crate::value::StringValue for $name {
            const EXTENSIBLE_ENUM: Option<&'static str> = Some(stringify!($name));
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer);
                text.map(Self::from).map_err($crate::value::expected("a string"))
            }
        }
    };
}

pub(crate) use extensible_enum;

extensible_enum! {
    /// Status of a deal. An extensible enum: `CLOSED` is the only documented value.
    ///
    /// ```
    /// use dealkit::DealStatus;
    ///
    #[doc = include_str!("deal_status_example.rs")]
    ///
    /// assert_eq!(describe_status(Some("CLOSED".into())), "closed");
    /// assert_eq!(describe_status(Some("SETTLED".into())), "settled");
    /// assert_eq!(describe_status(Some("WON".into())), "WON (unknown to this program)");
    /// ```
    ///
    /// The content of `Other` cannot be compared, because such an arm would never run again once the value is a variant:
    ///
    /// ```compile_fail
    /// # use dealkit::DealStatus;
    /// let is_settled = |status| match status {
    ///     DealStatus::Other(text) => text == "SETTLED",
    ///     _ => false,
    /// };
    /// ```
    DealStatus {
        /// `CLOSED`: the deal is closed.
        Closed = "CLOSED",
    }
}

extensible_enum! {
    /// Phase of a deal. An extensible enum: `APPLICATION` is the only documented value.
    DealPhase {
        /// `APPLICATION`: the deal is in its application phase.
        Application = "APPLICATION",
    }
}

extensible_enum! {
    /// Status of an application. An extensible enum: `PENDING` is the only documented value.
    ApplicationStatus {
        /// `PENDING`: the application is awaiting a decision.
        Pending = "PENDING",
    }
}

// Strings without a documented value are enums too: adding their first documented value then only adds a variant, which
// breaks no program.
extensible_enum! {
    /// Side of a listing contract. An extensible enum without a documented value.
    ListingSide {}
}

extensible_enum! {
    /// Type of a contact. An extensible enum without a documented value.
    ContactType {}
}

extensible_enum! {
    /// Type of a contact field. An extensible enum without a documented value.
    ContactFieldType {}
}
