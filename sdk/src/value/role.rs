//! The role of a create request: a closed set.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::expected::expected;

/// Role of the agent to create. The set is closed in a request (specification, "Create agent"); a
/// response may contain others, see [`AssignedRole`](crate::AssignedRole).
///
/// ```
/// use dealkit::Role;
///
/// assert_eq!(Role::BrokerAdmin.as_str(), "BROKER_ADMIN");
/// assert_eq!("AGENT".parse(), Ok(Role::Agent));
/// assert_eq!(Role::default(), Role::Agent);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// `COLLECTIVE_ADMIN`
    CollectiveAdmin,
    /// `BROKER_ADMIN`
    BrokerAdmin,
    /// `OFFICE_ADMIN`
    OfficeAdmin,
    /// `ADMIN`
    Admin,
    /// `AGENT`, the role if a request does not name one.
    #[default]
    Agent,
}

impl Role {
    /// Every role, in the specification's order.
    pub const ALL: [Role; 5] = [
        Role::CollectiveAdmin,
        Role::BrokerAdmin,
        Role::OfficeAdmin,
        Role::Admin,
        Role::Agent,
    ];

    /// The role as it is on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::CollectiveAdmin => "COLLECTIVE_ADMIN",
            Role::BrokerAdmin => "BROKER_ADMIN",
            Role::OfficeAdmin => "OFFICE_ADMIN",
            Role::Admin => "ADMIN",
            Role::Agent => "AGENT",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The string is not one of the five roles that a request may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(UnknownRole)
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)
            .map_err(expected("a string"))?
            .parse()
            .map_err(de::Error::custom)
    }
}
