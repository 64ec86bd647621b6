//! Identifiers: opaque strings, with a distinct type for each kind of resource.

use compact_str::CompactString;

use super::{Nullable, serde_errors::expected, text::like_a_string};

/// Defines identifiers, which are strings in JSON and distinct types in Rust.
///
/// Short values are stored inline. This makes decoding a deal fast, because most of its strings are identifiers, statuses
/// and types.
macro_rules! identifiers {
    ($( $(#[$doc:meta])* $name:ident; )+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(CompactString);

        impl $name {
            /// Wraps a string unchanged; every string is allowed.
            #[inline]
            pub fn new(value: impl AsRef<str>) -> Self {
                Self(CompactString::new(value))
            }

            /// Returns the string as it is in JSON.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            #[inline]
            fn from(value: &str) -> Self {
                Self::new(value)
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0.into()
            }
        }

        impl From<&$name> for String {
            fn from(value: &$name) -> Self {
                value.as_str().to_owned()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
                    .map(Self)
                    .map_err(expected("a string"))
            }
        }

        like_a_string!($name);

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl $crate::value::WireText for $name {
            const IS_IDENTIFIER: bool = true;
        }

        impl From<&str> for Nullable<$name> {
            fn from(value: &str) -> Self {
                Self::Value(value.into())
            }
        }

        impl From<String> for Nullable<$name> {
            fn from(value: String) -> Self {
                Self::Value(value.into())
            }
        }

        impl From<&$name> for Nullable<$name> {
            fn from(value: &$name) -> Self {
                Self::Value(value.clone())
            }
        }
    )+};
}

identifiers! {
    /// Identifies an agent. Opaque: the service defines its format (specification, "Resources and their fields").
    ///
    /// ```
    /// let id = dealkit::AgentId::from("a_1");
    /// assert_eq!(id.as_str(), "a_1");
    /// ```
    AgentId;
    /// Identifies a brokerage.
    BrokerageId;
    /// Identifies an office.
    OfficeId;
    /// Identifies a collective.
    CollectiveId;
    /// Identifies a deal.
    ///
    /// ```
    /// let id = dealkit::DealId::from("d_1");
    /// assert_eq!(id, "d_1");
    /// ```
    DealId;
    /// Identifies a listing contract.
    ListingContractId;
    /// Identifies an application.
    ApplicationId;
    /// Identifies an offer of an application.
    OfferId;
    /// Identifies a quote.
    QuoteId;
    /// Identifies a contact of a deal.
    ContactId;
    /// Identifies the schema that a contact follows.
    ContactSchemaId;
    /// Identifies a field of a contact.
    ContactFieldId;
    /// Identifies the schema that a contact field follows.
    FieldSchemaId;
}
