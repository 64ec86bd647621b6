//! A created agent: what was sent, and what the server makes of it.

use std::ops::Deref;

use dealkit::{
    Agent, AgentProfileResponse, CreateAgent, Json, RoleAssignment, UnknownFields, scalar,
};

/// An agent that was created. It can be used as the [`Agent`] that the response showed.
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
/// assert_eq!(created.sent.phone(), Some("+15555550100")); // no response shows it
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CreatedAgent {
    /// The agent, as the response showed it.
    pub agent: Agent,
    /// What was sent: also what no response shows, such as phone and image URL.
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
    /// Reads a stored agent.
    pub(crate) fn read(number: u64, body: &[u8]) -> Option<Self> {
        // What was created once has kept every rule.
        let body = Json::parse(std::str::from_utf8(body).ok()?).ok()?;
        let sent = CreateAgent::from_json(&body, UnknownFields::Ignore).ok()?;
        Some(Self {
            agent: made(&sent, agent_id(number)),
            sent,
        })
    }
}

/// The id of the agent that is created as the `number`th.
pub(crate) fn agent_id(number: u64) -> String {
    format!("a_{number}")
}

/// The agent that a request creates.
pub(crate) fn made(request: &CreateAgent, id: String) -> Agent {
    let sent = request.profile();
    let onboarded = sent
        .get("onboardingComplete")
        .is_some_and(|flag| flag.as_str() == "true");
    let metadata = sent.get("clientMetadata").cloned();
    let profile = AgentProfileResponse::builder()
        .onboarding_complete(onboarded)
        .client_metadata(metadata.unwrap_or_else(|| serde_json::json!({}).into()))
        .maybe_external_id(
            sent.get("externalId")
                .and_then(|id| id.deserialize::<String>().ok()),
        )
        .build();
    let assignment = RoleAssignment::builder()
        .role(request.role())
        .maybe_brokerage_id(request.brokerage_id())
        .maybe_office_id(request.office_id())
        .maybe_collective_id(request.collective_id())
        .build();
    Agent::builder()
        .id(id)
        .email(request.email())
        .first_name(request.first_name())
        .last_name(request.last_name())
        // The rules have seen to it that a date which is there is one.
        .maybe_date_of_birth(request.date_of_birth().and_then(scalar::date))
        .maybe_current_brokerage_id(request.brokerage_id())
        .profile(profile)
        .role_assignments([assignment])
        .build()
}
