//! Errors made by hand, for `dealkit.testing`: the core's own, so that they say the same as those of calls.

use std::{collections::HashMap, time::Duration};

use dealkit::{
    Agent, Deal, DecodeError, HeaderMap, Method, Outcome as CallOutcome, StatusCode,
    test_util::ErrorBuilder,
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::python::{
    arguments::{Expected, Settings},
    failure::{Failure, NativeFailure, Outcome, entry},
};

/// Makes an error of this kind: `status`, `timeout`, `throttled`, `connect`, `interrupted`, or `deal` or `agent` for a body that
/// cannot be read as one. It is returned in a tuple, since a bare failure stands for a wrong argument.
#[pyfunction]
pub(crate) fn made_error<'py>(
    kind: &str,
    settings: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    entry(settings.py(), || {
        let settings = Settings(settings);
        let body = body(&settings)?;
        let status = status(&settings)?;
        let reason = settings.text("reason")?.unwrap_or_default();
        let builder = match kind {
            "status" => ErrorBuilder::status(status),
            "timeout" => ErrorBuilder::timeout(settings.duration("seconds")?.unwrap_or_default()),
            "throttled" => {
                ErrorBuilder::throttled(settings.duration("seconds")?.unwrap_or_default())
            }
            "connect" => ErrorBuilder::connect(reason),
            "interrupted" => ErrorBuilder::interrupted(reason),
            "agent" => ErrorBuilder::decode(status, unreadable(Agent::from_json(&body))?),
            _ => ErrorBuilder::decode(status, unreadable(Deal::from_json(&body))?),
        };
        let mut builder = told(builder, &settings)?;
        if kind == "status" {
            builder = builder.body(body);
        }
        Ok((NativeFailure::from(Failure::from(builder.build())),))
    })
}

fn body(settings: &Settings<'_, '_>) -> Outcome<Vec<u8>> {
    let Some(body) = settings.0.get_item("body")? else {
        return Ok(Vec::new());
    };
    let body = body.cast::<PyBytes>().map_err(PyErr::from)?;
    Ok(body.as_bytes().to_vec())
}

fn status(settings: &Settings<'_, '_>) -> Outcome<StatusCode> {
    let Some(code) = settings.number::<u64>("status_code", Expected::Count)? else {
        return Ok(StatusCode::OK);
    };
    u16::try_from(code)
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or_else(|| Failure::Value("status_code must be from 100 to 999".to_owned()))
}

fn unreadable<T>(read: Result<T, DecodeError>) -> Outcome<DecodeError> {
    read.err().ok_or_else(|| {
        Failure::Value("body can be read as the model: there is no error in it".to_owned())
    })
}

/// Applies the settings that errors of every kind can have.
fn told(mut builder: ErrorBuilder, settings: &Settings<'_, '_>) -> Outcome<ErrorBuilder> {
    if let Some(operation) = settings.text("operation")? {
        let (method, path) = operation
            .split_once(' ')
            .and_then(|(method, path)| Some((Method::from_bytes(method.as_bytes()).ok()?, path)))
            .ok_or_else(|| {
                Failure::Value(
                    "operation must be a method and a path, such as POST /v1/agents".to_owned(),
                )
            })?;
        builder = builder.operation(method, path);
    }
    if let Some(attempts) = settings.number("attempts", Expected::Count)? {
        builder = builder.attempts(attempts);
    }
    if let Some(name) = settings.text("outcome")? {
        let outcome = [
            CallOutcome::NotSent,
            CallOutcome::Rejected,
            CallOutcome::Unknown,
            CallOutcome::Succeeded,
        ]
        .into_iter()
        .find(|outcome| outcome.as_str() == name)
        .ok_or_else(|| {
            Failure::Value("outcome must be not_sent, rejected, unknown or succeeded".to_owned())
        })?;
        builder = builder.outcome(outcome);
    }
    let headers: HashMap<String, String> = settings.pairs("headers")?.into_iter().collect();
    if !headers.is_empty() {
        let headers = HeaderMap::try_from(&headers)
            .map_err(|error| Failure::Value(format!("headers cannot be sent: {error}")))?;
        builder = builder.headers(headers);
    }
    if let Some(id) = settings.text("request_id")? {
        builder = builder.request_id(id);
    }
    if let Some(wait) = settings.number::<f64>("retry_after", Expected::Seconds)? {
        let wait = Duration::try_from_secs_f64(wait)
            .map_err(|_| Failure::Value("retry_after must not be negative".to_owned()))?;
        builder = builder.retry_after(wait);
    }
    Ok(builder)
}
