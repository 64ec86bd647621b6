//! What each operation does with a request that has passed the checks of its head.

use bytes::Bytes;
use dealkit::{CreateAgent, UnknownFields, internal::wire};
use http::{Response, StatusCode};

use crate::{
    contract::{
        problem::{ProblemType, Refusal},
        response::response,
    },
    json,
    state::{
        agent,
        store::{Full, Store},
    },
};

pub(crate) type Operation = fn(&Store, &Input<'_>) -> Result<Response<Bytes>, Refusal>;

#[derive(Debug)]
pub(crate) struct Input<'r> {
    /// The id in the path, decoded; empty where the path has none.
    pub(crate) id: &'r str,
    pub(crate) body: &'r [u8],
    pub(crate) unknown_fields: UnknownFields,
}

/// Makes checks 8, 9 and 11, then creates the agent.
pub(crate) fn create_agent(store: &Store, input: &Input<'_>) -> Result<Response<Bytes>, Refusal> {
    let body = json::check(input.body).map_err(|error| {
        let detail = format!("The body is not strict JSON: {error}");
        Refusal::new(ProblemType::MALFORMED_BODY, detail)
    })?;
    let request = CreateAgent::from_json(body, input.unknown_fields).map_err(|error| {
        let violations = error.violations();
        let detail = match violations.len() {
            1 => "1 field breaks a rule; `errors` says which and why.".to_owned(),
            count => format!("{count} fields break a rule; `errors` says which and why."),
        };
        Refusal::new(ProblemType::INVALID_AGENT, detail).violations(violations)
    })?;
    let number = store.add_agent(input.body).map_err(no_room)?;
    let created = agent::created(&request, number);
    // Texts and JSON, which always serialize.
    let body = serde_json::to_vec(&created).unwrap_or_default();
    Ok(response(StatusCode::CREATED, wire::JSON, body))
}

/// Makes check 10, then returns the deal.
pub(crate) fn retrieve_deal(store: &Store, input: &Input<'_>) -> Result<Response<Bytes>, Refusal> {
    let deal = store.deal(input.id).ok_or_else(unknown_deal)?;
    Ok(response(StatusCode::OK, wire::JSON, deal))
}

/// The refusal when check 10 has failed.
pub(crate) fn unknown_deal() -> Refusal {
    Refusal::new(
        ProblemType::UNKNOWN_DEAL,
        "This server has no deal with the id in the path. Add it with `--deals` or `PUT /__sandbox/deals/{id}`.",
    )
}

/// The refusal when check 11 has failed.
pub(crate) fn no_room(full: Full) -> Refusal {
    let flag = match full {
        Full::Agents => "--max-agents",
        Full::Bytes => "--max-store-bytes",
    };
    let detail = format!("Start the server with a higher {flag}, or reset it.");
    Refusal::new(ProblemType::STORE_FULL, detail)
}
