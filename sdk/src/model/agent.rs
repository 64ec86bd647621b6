//! What "Create agent" answers with.

use chrono::NaiveDate;

use crate::value::{AgentId, AssignedRole, BrokerageId, CollectiveId, Json, OfficeId};

model! {
    /// An agent, as the service answers with after creating one (specification, "Agent (response of create)").
    ///
    /// Reading wants `id`, `email`, `first_name`, `last_name`, `profile` and `role_assignments`; the
    /// length bounds of the names are not enforced on what a service sends.
    ///
    /// ```
    /// use dealkit::{Agent, Role, RoleAssignment};
    ///
    /// // Built in a test of yours:
    /// let mut agent = Agent::new("a_1", "ada@example.com", "Ada", "Lovelace");
    /// agent.role_assignments.push(RoleAssignment::new(Role::Agent));
    /// // Personal data never shows in Debug:
    /// assert!(!format!("{agent:?}").contains("Lovelace"));
    /// ```
    pub struct Agent {
        /// The agent's identifier.
        required shown id: AgentId = "id",
        /// E-mail address.
        required hidden email: String = "email",
        /// Date of birth, if the service knows it.
        nullable hidden date_of_birth: Option<NaiveDate> = "date_of_birth",
        /// First name.
        required hidden first_name: String = "first_name",
        /// Last name.
        required hidden last_name: String = "last_name",
        /// The agent's profile.
        required shown profile: AgentProfileResponse = "profile",
        /// The brokerage the agent is currently associated with; an agent is active with at most one.
        nullable shown current_brokerage_id: Option<BrokerageId> = "current_brokerage_id",
        /// The roles that the agent has, each with its scope.
        required shown role_assignments: Vec<RoleAssignment> = "role_assignments",
    }
}

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
            extra: Default::default(),
        }
    }
}

model! {
    /// The profile of an agent in a response (specification, "Agent profile (response)").
    /// What a request sends is [`AgentProfile`](crate::AgentProfile).
    #[derive(Default)]
    pub struct AgentProfileResponse {
        /// Whether the agent's onboarding is complete.
        optional shown onboarding_complete: Option<bool> = "onboarding_complete",
        /// What the caller attached to the agent: a JSON object, its text kept exactly.
        optional hidden client_metadata: Option<Json> = "client_metadata",
        /// The caller's own identifier of the agent.
        optional hidden external_id: Option<String> = "external_id",
    }
}

model! {
    /// A role of an agent and where it holds (specification, "Role assignment").
    pub struct RoleAssignment {
        /// The brokerage that the role is for.
        nullable shown brokerage_id: Option<BrokerageId> = "brokerage_id",
        /// The office that the role is for.
        nullable shown office_id: Option<OfficeId> = "office_id",
        /// The collective that the role is for.
        nullable shown collective_id: Option<CollectiveId> = "collective_id",
        /// The role; one outside the request's closed set is kept as it came.
        required shown role: AssignedRole = "role",
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
            extra: Default::default(),
        }
    }
}
