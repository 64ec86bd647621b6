//! The agent to create.

use dealkit::{AgentProfile, CreateAgent, Role, ValidationError};

use crate::plain;

/// The request as a program builds it with dealkit: every rule is checked.
///
/// # Errors
///
/// If it breaks a rule, which never happens.
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

/// The same for serde_json alone: nothing is checked.
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
