//! The operations of /v1. They run after the checks of a request's head.

use bytes::Bytes;
use dealkit::{CreateAgent, UnknownFields, internal::wire};
use http::{Response, StatusCode};

use crate::{
    contract::{
        problem::{ProblemType, Rejection},
        response::response,
    },
    json,
    state::{
        agent,
        store::{Store, StoreLimit},
    },
};

pub(crate) type Operation = fn(&Store, &Input<'_>) -> Result<Response<Bytes>, Rejection>;

/// The parts of a request that an operation needs.
#[derive(Debug)]
pub(crate) struct Input<'r> {
    /// The decoded id in the path; empty if the path has no id.
    pub(crate) id: &'r str,
    pub(crate) body: &'r [u8],
    pub(crate) unknown_fields: UnknownFields,
}

/// Performs checks 8 (strict JSON), 9 (the rules for agents) and 11 (space in the store), then creates the agent.
pub(crate) fn create_agent(store: &Store, input: &Input<'_>) -> Result<Response<Bytes>, Rejection> {
    let body = json::check(input.body).map_err(|error| {
        let detail = format!("The body is not strict JSON: {error}");
        Rejection::new(ProblemType::MALFORMED_BODY, detail)
    })?;
    let request = CreateAgent::from_json(body, input.unknown_fields).map_err(|error| {
        let violations = error.violations();
        let detail = match violations.len() {
            1 => "1 field breaks a rule; `errors` says which and why.".to_owned(),
            count => format!("{count} fields break a rule; `errors` says which and why."),
        };
        Rejection::new(ProblemType::INVALID_AGENT, detail).violations(violations)
    })?;
    let number = store.add_agent(input.body).map_err(store_full_rejection)?;
    let agent = agent::build_agent(&request, number);
    // Serialization cannot fail: an agent contains only strings and JSON.
    let body = serde_json::to_vec(&agent).unwrap_or_default();
    Ok(response(StatusCode::CREATED, wire::JSON, body))
}

/// Performs check 10 (the deal exists), then returns the deal.
pub(crate) fn retrieve_deal(
    store: &Store,
    input: &Input<'_>,
) -> Result<Response<Bytes>, Rejection> {
    let deal = store
        .find_deal(input.id)
        .ok_or_else(unknown_deal_rejection)?;
    Ok(response(StatusCode::OK, wire::JSON, deal))
}

/// Creates the rejection of check 10.
pub(crate) fn unknown_deal_rejection() -> Rejection {
    Rejection::new(
        ProblemType::UNKNOWN_DEAL,
        "This server has no deal with the id in the path. Add it with `--deals` or `PUT /__sandbox/deals/{id}`.",
    )
}

/// Creates the rejection of check 11.
pub(crate) fn store_full_rejection(limit: StoreLimit) -> Rejection {
    let flag = match limit {
        StoreLimit::Agents => "--max-agents",
        StoreLimit::Bytes => "--max-store-bytes",
    };
    let detail = format!("Start the server with a higher {flag}, or reset it.");
    Rejection::new(ProblemType::STORE_FULL, detail)
}
