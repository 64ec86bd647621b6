//! Strings from open sets: the specification shows a sample or none, and says "not shown" of the rest.
//! Every value is kept as it came; the known ones are constants.

use super::{Role, ids::string_type};

/// Gives a string type constants for the documented values.
macro_rules! known_values {
    ($name:ident { $($(#[$doc:meta])* $constant:ident = $value:expr),+ $(,)? }) => {
        impl $name {
            $(
                $(#[$doc])*
                pub const $constant: Self = Self(compact_str::CompactString::const_new($value));
            )+
        }
    };
}

string_type! {
    /// Status of a deal. An open set: `CLOSED` is the one documented value.
    ///
    /// ```
    /// use dealkit::DealStatus;
    ///
    /// assert_eq!(DealStatus::from("CLOSED"), DealStatus::CLOSED);
    /// assert_eq!(DealStatus::from("SOMETHING_NEW").as_str(), "SOMETHING_NEW");
    /// ```
    DealStatus
}
known_values!(DealStatus {
    /// The deal is closed.
    CLOSED = "CLOSED",
});

string_type! {
    /// Phase of a deal. An open set: `APPLICATION` is the one documented value.
    DealPhase
}
known_values!(DealPhase {
    /// The deal is in its application phase.
    APPLICATION = "APPLICATION",
});

string_type! {
    /// Status of an application. An open set: `PENDING` is the one documented value.
    ApplicationStatus
}
known_values!(ApplicationStatus {
    /// The application waits for a decision.
    PENDING = "PENDING",
});

string_type! {
    /// Side of a listing contract. An open set; no value is documented.
    ListingSide
}
string_type! {
    /// Type of a contact. An open set; no value is documented.
    ContactType
}
string_type! {
    /// Type of a contact field. An open set; no value is documented.
    ContactFieldType
}

string_type! {
    /// Role in a response. The known values are those of [`Role`]; any other is kept as it came.
    ///
    /// ```
    /// use dealkit::{AssignedRole, Role};
    ///
    /// assert_eq!(AssignedRole::from("AGENT"), Role::Agent);
    /// assert_eq!(AssignedRole::from("AGENT").known(), Some(Role::Agent));
    /// assert_eq!(AssignedRole::from("TEAM_LEAD").known(), None);
    /// ```
    AssignedRole
}
known_values!(AssignedRole {
    /// See [`Role::CollectiveAdmin`].
    COLLECTIVE_ADMIN = Role::CollectiveAdmin.as_str(),
    /// See [`Role::BrokerAdmin`].
    BROKER_ADMIN = Role::BrokerAdmin.as_str(),
    /// See [`Role::OfficeAdmin`].
    OFFICE_ADMIN = Role::OfficeAdmin.as_str(),
    /// See [`Role::Admin`].
    ADMIN = Role::Admin.as_str(),
    /// See [`Role::Agent`].
    AGENT = Role::Agent.as_str(),
});

impl AssignedRole {
    /// The role of the request's closed set, or `None` if this one is not in it.
    pub fn known(&self) -> Option<Role> {
        self.as_str().parse().ok()
    }
}

impl From<Role> for AssignedRole {
    fn from(role: Role) -> Self {
        Self::new(role.as_str())
    }
}

impl PartialEq<Role> for AssignedRole {
    fn eq(&self, other: &Role) -> bool {
        self.as_str() == other.as_str()
    }
}
