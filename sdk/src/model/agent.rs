//! What "Create agent" returns.

use std::collections::BTreeMap;

use super::{Agent, AgentProfileResponse, RoleAssignment};
use crate::value::{AgentId, AssignedRole};

/// ```
/// use dealkit::{Agent, Role, RoleAssignment};
///
/// // Built in a test of yours:
/// let mut agent = Agent::new("a_1", "ada@example.com", "Ada", "Lovelace");
/// agent.role_assignments.push(RoleAssignment::new(Role::Agent));
/// // Personal data never shows in Debug:
/// assert!(!format!("{agent:?}").contains("Lovelace"));
/// ```
impl Agent {
    /// An agent with the fields that every agent has; the others are public and start empty.
    pub fn new(
        id: impl Into<AgentId>,
        email: impl Into<String>,
        first_name: impl Into<String>,
        last_name: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            email: email.into(),
            date_of_birth: None,
            first_name: first_name.into(),
            last_name: last_name.into(),
            profile: AgentProfileResponse::default(),
            current_brokerage_id: None,
            role_assignments: Vec::new(),
            extra: BTreeMap::new(),
        }
    }
}

impl RoleAssignment {
    /// A role without a scope; the scope's fields are public.
    pub fn new(role: impl Into<AssignedRole>) -> Self {
        Self {
            brokerage_id: None,
            office_id: None,
            collective_id: None,
            role: role.into(),
            extra: BTreeMap::new(),
        }
    }
}
