//! Identifiers: opaque strings, one distinct type for each kind of thing they name.

/// Defines a type that is a string on the wire and a distinct type in Rust.
///
/// Short values are stored inline, which is what makes decoding a deal fast: most of its strings are
/// identifiers, statuses and types.
macro_rules! string_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(compact_str::CompactString);

        impl $name {
            /// Wraps the string as it is; every string is allowed.
            pub fn new(value: impl AsRef<str>) -> Self {
                Self(compact_str::CompactString::new(value))
            }

            /// The string, as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self::new(value)
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }

        impl From<&$name> for $name {
            fn from(value: &$name) -> Self {
                value.clone()
            }
        }

        impl From<&str> for $crate::Nullable<$name> {
            fn from(value: &str) -> Self {
                Self::Value(value.into())
            }
        }

        impl From<String> for $crate::Nullable<$name> {
            fn from(value: String) -> Self {
                Self::Value(value.into())
            }
        }

        impl From<&$name> for $crate::Nullable<$name> {
            fn from(value: &$name) -> Self {
                Self::Value(value.clone())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0.into()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }
    };
}

pub(super) use string_type;

string_type! {
    /// Identifies an agent. Opaque: its form is the service's business (specification, "Resources and their fields").
    ///
    /// ```
    /// let id = dealkit::AgentId::from("a_1");
    /// assert_eq!(id.as_str(), "a_1");
    /// ```
    AgentId
}
string_type! {
    /// Identifies a brokerage.
    BrokerageId
}
string_type! {
    /// Identifies an office.
    OfficeId
}
string_type! {
    /// Identifies a collective.
    CollectiveId
}
string_type! {
    /// Identifies a deal.
    ///
    /// ```
    /// let id = dealkit::DealId::from("d_1");
    /// assert_eq!(id, "d_1");
    /// ```
    DealId
}
string_type! {
    /// Identifies a listing contract.
    ListingContractId
}
string_type! {
    /// Identifies an application.
    ApplicationId
}
string_type! {
    /// Identifies an offer of an application.
    OfferId
}
string_type! {
    /// Identifies a quote.
    QuoteId
}
string_type! {
    /// Identifies a contact of a deal.
    ContactId
}
string_type! {
    /// Identifies the schema that a contact follows.
    ContactSchemaId
}
string_type! {
    /// Identifies a field of a contact.
    ContactFieldId
}
string_type! {
    /// Identifies the schema that a contact field follows.
    FieldSchemaId
}
