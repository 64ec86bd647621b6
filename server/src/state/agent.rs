//! A created agent: what was sent, and what the server makes of it.

use std::{borrow::Cow, ops::Deref};

use dealkit::{
    Agent, CheckedAgent, CreateAgent, Nullable, Role, UnknownFields,
    fields::{Body, Value},
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
    /// The request as it was sent, including what no response shows, such as phone and image URL.
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
        // A stored agent passed every rule when it was created.
        let body = Body::unread(std::str::from_utf8(body).ok()?);
        let sent = CheckedAgent::read(body, UnknownFields::Ignore).ok()?;
        Some(Self {
            // Not `Agent::from_json`, which limits the number of values: every created agent is shown.
            agent: serde_json::from_slice(&response(&sent, number)).ok()?,
            sent: sent.into(),
        })
    }
}

/// The id of the `number`th agent.
pub(crate) fn agent_id(number: u64) -> String {
    format!("a_{number}")
}

/// The JSON of the `number`th agent, which the request `sent` creates.
///
/// It is written straight from the request: an [`Agent`] in between would be a copy of it all.
pub(crate) fn response(sent: &CheckedAgent<'_>, number: u64) -> Vec<u8> {
    let role = sent.role.as_deref().unwrap_or(Role::default().as_str());
    let profile = &sent.profile;
    // The rules guarantee that these are not strings.
    let json = |name, otherwise| match profile.get(name) {
        Some(Value::Json(json)) => json,
        _ => otherwise,
    };
    let metadata = json("clientMetadata", "{}");
    // The rest is mostly short.
    let mut out = ObjectWriter(Vec::with_capacity(512 + metadata.len()));
    out.text(r#"{"id":"#, &agent_id(number));
    out.text(r#","email":"#, &sent.email);
    out.nullable(r#","date_of_birth":"#, &sent.date_of_birth);
    out.text(r#","first_name":"#, &sent.first_name);
    out.text(r#","last_name":"#, &sent.last_name);
    let onboarded = json("onboardingComplete", "false");
    out.json(r#","profile":{"onboarding_complete":"#, onboarded);
    out.json(r#","client_metadata":"#, metadata);
    if let Some(id) = profile.get("externalId") {
        out.value(r#","external_id":"#, id);
    }
    out.nullable(r#"},"current_brokerage_id":"#, &sent.brokerage_id);
    out.nullable(
        r#","role_assignments":[{"brokerage_id":"#,
        &sent.brokerage_id,
    );
    out.nullable(r#","office_id":"#, &sent.office_id);
    out.nullable(r#","collective_id":"#, &sent.collective_id);
    out.text(r#","role":"#, role);
    out.0.extend_from_slice(b"}]}");
    out.0
}

/// A JSON object being written. Each method appends the text `before` a value, and then the value.
struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    /// A value that is JSON.
    fn json(&mut self, before: &'static str, value: &str) {
        self.0.extend_from_slice(before.as_bytes());
        self.0.extend_from_slice(value.as_bytes());
    }

    fn text(&mut self, before: &'static str, value: &str) {
        self.0.extend_from_slice(before.as_bytes());
        // Serializing a string does not fail.
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    /// A value as it was sent.
    fn value(&mut self, before: &'static str, value: Value<'_>) {
        match value {
            Value::Text(text) => self.text(before, text),
            Value::Json(json) => self.json(before, json),
        }
    }

    fn nullable(&mut self, before: &'static str, value: &Option<Nullable<Cow<'_, str>>>) {
        match value {
            Some(Nullable::Value(value)) => self.text(before, value),
            _ => self.json(before, "null"),
        }
    }
}
