//! The request that creates the agent.

use dealkit::{AgentProfile, CreateAgent, Role, ValidationError};

use crate::plain;

/// Builds the request as a program does with dealkit, which checks every rule.
///
/// # Errors
///
/// Never, because the request breaks no rule.
pub fn checked() -> Result<CreateAgent, ValidationError> {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(
            AgentProfile::new()
                .tier("A")
                .external_id("crm-000017")
                .onboarding_complete(true),
        )
        .role(Role::Agent)
        .phone("+18025550117")
        .date_of_birth("1985-12-10")
        .office_id("o_1")
        .build()
}

/// Builds the same request for serde_json alone, which checks nothing.
pub fn unchecked() -> plain::CreateAgent<'static> {
    plain::CreateAgent {
        email: "ada@example.com",
        first_name: "Ada",
        last_name: "Lovelace",
        profile: plain::Profile {
            tier: "A",
            external_id: "crm-000017",
            onboarding_complete: true,
        },
        role: "AGENT",
        phone: "+18025550117",
        date_of_birth: "1985-12-10",
        office_id: "o_1",
    }
}
