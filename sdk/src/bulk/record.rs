//! The records of requests and outcomes in a ledger. They contain no personal data.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    bulk::row::find_id,
    error::call::Error,
    ledger::{MAX_ID_BYTES, RequestInfo, RowEntry, Salt, State},
    transport::outcome::Outcome,
};

/// Describes the request with this body and label by its hashes.
pub(crate) fn describe_request(
    salt: &Salt,
    body: Option<&Bytes>,
    label: Option<String>,
) -> RequestInfo {
    #[derive(Deserialize)]
    struct Agent<'a> {
        #[serde(borrow)]
        email: Cow<'a, str>,
    }
    let parse_agent = |body| serde_json::from_slice::<Agent<'_>>(body).ok();
    RequestInfo {
        body_hash: body.map(|body| salt.hash_request(body)),
        email_hash: body
            .and_then(|body| parse_agent(body))
            .map(|agent| salt.hash_email(&agent.email)),
        label,
    }
}

/// Returns the record of a request with this outcome, or `None` if no part of the request was sent.
pub(crate) fn from_outcome(outcome: Outcome, request: &RequestInfo) -> Option<RowEntry> {
    let state = match outcome {
        Outcome::NotSent => return None,
        Outcome::Succeeded => State::Succeeded,
        Outcome::Rejected => State::Rejected,
        Outcome::Unknown => State::Unknown,
    };
    Some(RowEntry {
        request: request.clone(),
        ..RowEntry::new(state)
    })
}

/// Returns the record of a cancelled call with this outcome. A rejection is not recorded, because the call would have been retried.
pub(crate) fn from_cancelled(outcome: Outcome, request: &RequestInfo) -> Option<RowEntry> {
    from_outcome(outcome, request).filter(|record| record.state != State::Rejected)
}

/// Returns the record of a call that ended with this result, or `None` if no part of its request was sent.
pub(crate) fn from_result<T>(
    result: &Result<T, Error>,
    agent_id: fn(&T) -> Option<String>,
    request: &RequestInfo,
    body: Option<&Bytes>,
) -> Option<RowEntry> {
    let with_agent = |id: Option<String>| {
        Some(RowEntry {
            // An identifier longer than this is not useful to a person.
            agent_id: id.filter(|id| id.len() <= MAX_ID_BYTES),
            request: request.clone(),
            ..RowEntry::new(State::Succeeded)
        })
    };
    match result {
        Ok(agent) => with_agent(agent_id(agent)),
        Err(error) if error.outcome() == Outcome::Succeeded => {
            with_agent(error.body().and_then(find_id))
        }
        Err(error) => from_outcome(error.outcome(), request).map(|record| {
            let (title, code) = match record.state {
                State::Rejected => (find_title(error, body), error.shown_codes()),
                _ => (None, None),
            };
            RowEntry {
                status: error.status().map(|status| status.as_u16()),
                request_id: error.shown_request_id(),
                title,
                code,
                ..record
            }
        }),
    }
}

/// Returns the title of a rejection, unless it repeats a string of the request, which may be personal data.
fn find_title(error: &Error, body: Option<&Bytes>) -> Option<String> {
    error.shown_title().filter(|title| {
        !title.contains('\0') && !body.is_some_and(|body| repeats_request(title, body))
    })
}

fn repeats_request(text: &str, request: &[u8]) -> bool {
    fn contains(text: &str, value: &Value) -> bool {
        match value {
            Value::String(string) => string.len() > 2 && text.contains(string.as_str()),
            Value::Array(items) => items.iter().any(|item| contains(text, item)),
            Value::Object(members) => members.values().any(|member| contains(text, member)),
            _ => false,
        }
    }
    serde_json::from_slice(request).is_ok_and(|request| contains(text, &request))
}
