//! Created agents: the stored request, and the response that the server derives from it.

use std::ops::Deref;

use dealkit::{Agent, AgentProfileResponse, CreateAgent, Json, RoleAssignment, UnknownFields};

/// A created agent. It dereferences to the [`Agent`] in the response.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dealkit::{AgentProfile, Client, CreateAgent};
/// use dealkit_server::Sandbox;
///
/// let sandbox = Sandbox::builder().start()?;
/// let client = Client::builder().base_url(sandbox.url()).service_key(sandbox.service_key()).build()?;
/// let request = CreateAgent::builder()
///     .email("ada@example.com")
///     .first_name("Ada")
///     .last_name("Lovelace")
///     .profile(AgentProfile::new())
///     .phone("+15555550100");
/// client.agents().create(request.build()?).await?;
///
/// let created = &sandbox.agents()[0];
/// assert_eq!(created.first_name, "Ada");
/// assert_eq!(created.sent.phone(), Some("+15555550100")); // responses omit the phone number
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CreatedAgent {
    /// The agent in the response.
    pub agent: Agent,
    /// The request, including fields that responses omit, such as phone and image URL.
    pub sent: CreateAgent,
}

impl Deref for CreatedAgent {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

impl PartialEq<Agent> for CreatedAgent {
    fn eq(&self, agent: &Agent) -> bool {
        self.agent == *agent
    }
}

impl CreatedAgent {
    /// Parses a stored request.
    pub(crate) fn from_stored(number: u64, body: &[u8]) -> Option<Self> {
        let body = std::str::from_utf8(body).ok()?;
        let sent = CreateAgent::from_json(body, UnknownFields::Ignore).ok()?;
        Some(Self {
            agent: build_agent(&sent, number),
            sent,
        })
    }
}

fn agent_id(number: u64) -> String {
    format!("a_{number}")
}

/// Builds the response to the `number`th create request.
pub(crate) fn build_agent(request: &CreateAgent, number: u64) -> Agent {
    let profile = request.profile();
    let onboarding_complete = profile.get("onboardingComplete");
    let metadata = profile.get("clientMetadata");
    let external_id = profile.get("externalId");
    let response = AgentProfileResponse::builder()
        .onboarding_complete(onboarding_complete.is_some_and(|json| json.as_str() == "true"))
        .client_metadata(metadata.unwrap_or_else(|| Json::from(serde_json::json!({}))))
        .maybe_external_id(external_id.and_then(|id| id.deserialize::<String>().ok()));
    let assignment = RoleAssignment::builder()
        .maybe_brokerage_id(request.brokerage_id().cloned())
        .maybe_office_id(request.office_id().cloned())
        .maybe_collective_id(request.collective_id().cloned())
        .role(request.role().clone());
    Agent::builder()
        .id(agent_id(number))
        .email(request.email())
        .maybe_date_of_birth(request.date_of_birth().and_then(|date| date.parse().ok()))
        .first_name(request.first_name())
        .last_name(request.last_name())
        .profile(response.build())
        .maybe_current_brokerage_id(request.brokerage_id().cloned())
        .role_assignments([assignment.build()])
        .build()
}
