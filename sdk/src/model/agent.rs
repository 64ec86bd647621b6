//! What "Create agent" returns.

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
        Self::with_required(
            id.into(),
            email.into(),
            first_name.into(),
            last_name.into(),
            AgentProfileResponse::default(),
            Vec::new(),
        )
    }
}

impl RoleAssignment {
    /// A role without a scope; the scope's fields are public.
    pub fn new(role: impl Into<AssignedRole>) -> Self {
        Self::with_required(role.into())
    }
}
