//! What each operation does with a request that has passed the checks of its head.

use bytes::Bytes;
use dealkit::{Agent, AgentProfileResponse, CreateAgent, Json, RoleAssignment, UnknownFields};
use http::StatusCode;

use crate::{
    json,
    problem::{Kind, Refusal},
    store::Store,
};

/// An operation, as the table of routes names it.
pub(crate) type Operation = fn(&Operations, &Input<'_>) -> Result<Success, Refusal>;

/// What an operation reads of a request.
#[derive(Debug)]
pub(crate) struct Input<'r> {
    /// The id in the path, decoded; empty where the path has none.
    pub(crate) id: &'r str,
    pub(crate) body: &'r [u8],
}

/// The status and the JSON of a response to a request that succeeded.
pub(crate) type Success = (StatusCode, Bytes);

/// The operations, and what they work on.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) store: Store,
    pub(crate) unknown_fields: UnknownFields,
}

impl Operations {
    /// Checks 8, 9 and 11, then the new agent.
    pub(crate) fn create_agent(&self, input: &Input<'_>) -> Result<Success, Refusal> {
        let malformed = |detail: String| Refusal::new(Kind::MALFORMED_BODY, detail);
        let text = json::check(input.body)
            .map_err(|error| malformed(format!("The body must be strict JSON, but has {error}")))?;
        let value = Json::parse(text).map_err(|error| {
            malformed(format!(
                "The body must be strict JSON, but is not at line {} column {}",
                error.line(),
                error.column()
            ))
        })?;
        let request = CreateAgent::from_json(&value, self.unknown_fields).map_err(|error| {
            let violations = error.violations();
            let detail = match violations.len() {
                1 => "1 field breaks a rule; `errors` says which and why.".to_owned(),
                count => format!("{count} fields break a rule; `errors` says which and why."),
            };
            Refusal::new(Kind::INVALID_AGENT, detail).violations(violations)
        })?;
        let slot = self.store.take_slot().ok_or_else(|| {
            Refusal::new(
                Kind::STORE_FULL,
                "Start the server with a higher --max-agents, or reset it.",
            )
        })?;
        let agent = agent_of(&request, slot.agent_id());
        // An agent is strings, booleans and JSON, which JSON always takes.
        let response = serde_json::to_vec(&agent).unwrap_or_default();
        slot.put(&response);
        Ok((StatusCode::CREATED, Bytes::from(response)))
    }

    /// Check 10, then the deal.
    pub(crate) fn retrieve_deal(&self, input: &Input<'_>) -> Result<Success, Refusal> {
        let deal = self.store.deal(input.id).ok_or_else(|| {
            Refusal::new(
                Kind::UNKNOWN_DEAL,
                "This server has no deal with the id in the path. Seed it first.",
            )
        })?;
        Ok((StatusCode::OK, deal))
    }
}

/// The agent that a request creates.
fn agent_of(request: &CreateAgent, id: String) -> Agent {
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
        .maybe_date_of_birth(request.date_of_birth().and_then(|date| date.parse().ok()))
        .maybe_current_brokerage_id(request.brokerage_id())
        .profile(profile)
        .role_assignments([assignment])
        .build()
}
