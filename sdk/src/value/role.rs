//! The roles of an agent: a closed set in a request, an extensible enum in a response.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{extensible_enum::extensible_enum, named_enum::named_enum, serde_errors::expected};

/// Defines [`Role`] for requests and [`AssignedRole`] for responses, with the same documented values.
macro_rules! roles {
    ($( $(#[$doc:meta])* $role:ident = $wire:literal, )+) => {
        named_enum! {
            /// Role of the agent to create. A request accepts only these values (specification, "Create agent"); a response
            /// may contain other roles, see [`AssignedRole`](crate::AssignedRole).
            ///
            /// ```
            /// use dealkit::Role;
            ///
            /// assert_eq!(Role::BrokerAdmin.as_str(), "BROKER_ADMIN");
            /// assert_eq!("AGENT".parse(), Ok(Role::Agent));
            /// assert_eq!(Role::default(), Role::Agent);
            /// ```
            #[derive(Default, PartialOrd, Ord)]
            #[non_exhaustive]
            Role {
                $( #[doc = concat!("`", $wire, "`")] $(#[$doc])* $role = $wire, )+
            }
        }

        impl Role {
            /// Every role, in the specification's order.
            pub const ALL: &'static [Self] = &[$(Self::$role),+];

            pub(crate) const NAMES: &'static [&'static str] = &[$($wire),+];
        }

        extensible_enum! {
            /// Role of an agent in a response. An extensible enum: its documented values are the values of [`Role`], the closed
            /// set that a request must use.
            ///
            /// ```
            /// use dealkit::{AssignedRole, Role};
            ///
            /// assert_eq!(AssignedRole::from("AGENT"), AssignedRole::Agent);
            /// assert_eq!(AssignedRole::Agent, Role::Agent);
            /// assert_eq!(AssignedRole::Agent.known(), Some(Role::Agent));
            /// assert_eq!(AssignedRole::from("TEAM_LEAD").known(), None);
            /// ```
            AssignedRole {
                $( #[doc = concat!("See [`Role::", stringify!($role), "`].")] $role = $wire, )+
            }
        }
    };
}

roles! {
    CollectiveAdmin = "COLLECTIVE_ADMIN",
    BrokerAdmin = "BROKER_ADMIN",
    OfficeAdmin = "OFFICE_ADMIN",
    Admin = "ADMIN",
    /// The default role, if a request names none.
    #[default]
    Agent = "AGENT",
}

/// The error for a string that is not one of the five roles that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}", Role::NAMES.join(", "))]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let mut all = Role::ALL.iter().copied();
        all.find(|role| role.as_str() == text).ok_or(UnknownRole)
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

impl AssignedRole {
    /// Returns the role as a [`Role`], or `None` if a request could not use it.
    pub fn known(&self) -> Option<Role> {
        self.as_str().parse().ok()
    }
}

impl From<Role> for AssignedRole {
    fn from(role: Role) -> Self {
        role.as_str().into()
    }
}

impl PartialEq<Role> for AssignedRole {
    fn eq(&self, other: &Role) -> bool {
        self.as_str() == other.as_str()
    }
}

impl PartialEq<AssignedRole> for Role {
    fn eq(&self, other: &AssignedRole) -> bool {
        other == self
    }
}
