//! Strings from open sets: the specification shows a sample or none, and says "not shown" of the rest.

use std::marker::PhantomData;

use compact_str::CompactString;

/// What `Other` holds: a value of the open set `Set` that dealkit does not know, unchanged.
///
/// It has no name outside this crate, and nothing can be done with it there: what a program learned from it would
/// silently change on the day that the value becomes a variant. Since it belongs to its set and only dealkit creates
/// one, a documented value is never an `Other`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_debug_implementations, reason = "nothing shows it but its set")]
pub struct Undocumented<Set>(CompactString, PhantomData<fn() -> Set>);

impl<Set> Undocumented<Set> {
    /// Only for [`open_set`], which has checked whether the value is documented.
    #[inline]
    pub(crate) fn new(text: impl Into<CompactString>) -> Self {
        Self(text.into(), PhantomData)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Defines an open set: its documented values, and `Other` for the rest.
macro_rules! open_set {
    ($(#[$doc:meta])* $name:ident {
        $( $(#[$value_doc:meta])* $value:ident = $wire:expr, )*
    }) => {
        $(#[$doc])*
        ///
        /// A value without a variant is compared with a string, `status == "SOMETHING"`, which holds before and after a
        /// later version adds that variant.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$value_doc])* $value, )*
            /// Any other value, unchanged. It cannot be taken apart, because a later version may make it a variant:
            /// the set itself is compared with strings, displayed, and read with [`as_str`](Self::as_str).
            Other($crate::value::Undocumented<Self>),
        }

        impl $name {
            /// Every documented value.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The string as it is on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$value => $wire, )*
                    Self::Other(value) => value.as_str(),
                }
            }

            /// The documented value that this string represents.
            #[allow(unused_variables, reason = "some sets have no documented value")]
            #[inline]
            fn documented(text: &str) -> Option<Self> {
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
                Self::documented(text)
                    .unwrap_or_else(|| Self::Other($crate::value::Undocumented::new(text)))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::documented(&text)
                    .unwrap_or_else(|| Self::Other($crate::value::Undocumented::new(text)))
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        $crate::value::like_a_string!($name);

        impl $crate::value::WireText for $name {
            const OPEN_SET: Option<&'static str> = Some(stringify!($name));
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

pub(crate) use open_set;

open_set! {
    /// Status of a deal. An open set: `CLOSED` is the one documented value.
    ///
    /// ```
    /// use dealkit::DealStatus;
    ///
    #[doc = include_str!("match_status.rs")]
    ///
    /// assert_eq!(shown(Some("CLOSED".into())), "closed");
    /// assert_eq!(shown(Some("SETTLED".into())), "settled");
    /// assert_eq!(shown(Some("WON".into())), "WON, whatever that is");
    /// ```
    ///
    /// What `Other` holds is no string, because such an arm would never be reached again once the value is a variant:
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

open_set! {
    /// Phase of a deal. An open set: `APPLICATION` is the one documented value.
    DealPhase {
        /// `APPLICATION`: the deal is in its application phase.
        Application = "APPLICATION",
    }
}

open_set! {
    /// Status of an application. An open set: `PENDING` is the one documented value.
    ApplicationStatus {
        /// `PENDING`: the application is awaiting a decision.
        Pending = "PENDING",
    }
}

// Sets without a documented value are enums too, so that the first documented one is only one more variant, and
// breaks nobody.
open_set! {
    /// Side of a listing contract. An open set; no value is documented.
    ListingSide {}
}

open_set! {
    /// Type of a contact. An open set; no value is documented.
    ContactType {}
}

open_set! {
    /// Type of a contact field. An open set; no value is documented.
    ContactFieldType {}
}
