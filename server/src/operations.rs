//! What each operation does with a request that has passed the checks of its head.

use bytes::Bytes;
use dealkit::{Agent, AgentProfileResponse, CreateAgent, RoleAssignment, UnknownFields};
use http::StatusCode;

use crate::{
    json,
    problem::{Kind, Refusal},
    store::{Full, Store},
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
        let body = json::read_body(input.body).map_err(|error| {
            let detail = format!("The body must be strict JSON, but has {error}");
            Refusal::new(Kind::MALFORMED_BODY, detail)
        })?;
        let request = CreateAgent::from_value(body, self.unknown_fields).map_err(|error| {
            let violations = error.violations();
            let detail = match violations.len() {
                1 => "1 field breaks a rule; `errors` says which and why.".to_owned(),
                count => format!("{count} fields break a rule; `errors` says which and why."),
            };
            Refusal::new(Kind::INVALID_AGENT, detail).violations(violations)
        })?;
        let slot = self.store.take_slot().map_err(no_room)?;
        let agent = agent_of(&request, slot.agent_id());
        // About as long as the request, so that it need not grow.
        let mut response = Vec::with_capacity(input.body.len() + 256);
        // An agent is strings, booleans and JSON, which JSON always takes.
        let _ = serde_json::to_writer(&mut response, &agent);
        slot.put(&response).map_err(no_room)?;
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

/// Check 11 has failed.
fn no_room(full: Full) -> Refusal {
    let flag = match full {
        Full::Agents => "--max-agents",
        Full::Bytes => "--max-store-bytes",
    };
    let detail = format!("Start the server with a higher {flag}, or reset it.");
    Refusal::new(Kind::STORE_FULL, detail)
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
