//! Calls and their options: values that Python code makes and a [`NativeClient`](crate::client::NativeClient) sends.

use std::sync::Arc;

use bytes::Bytes;
use dealkit::{CallOptions, Json, Method, RawResponse, RetryPolicy, ValidationError};
use futures_util::FutureExt as _;
use pyo3::{
    Borrowed,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    calls::{
        ledger_options::LedgerOptions, observer::Observer, resolve_requests::resolve_channel,
        sent_call::SentCall,
    },
    models::{
        agent_body,
        call_result::CallResult,
        response::BodyModel,
        write::{Location, Writer},
    },
    python::{
        arguments::{NumberKind, Settings, apply_settings, parse_pairs, parse_text},
        failure::{EntryResult, Failure, Result, run_entry},
        untrack::untrack,
    },
};

/// One call, which a client can send any number of times.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Call(Operation);

enum Operation {
    RetrieveDeal { id: String },
    CreateAgent { body: Bytes },
    Undocumented(RawRequest),
}

/// A request of an undocumented operation.
struct RawRequest {
    method: Method,
    segments: Vec<String>,
    json: Option<Json>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

impl Call {
    /// Returns the JSON body of a call that creates an agent; `None` for other calls.
    pub(crate) fn create_body(&self) -> Option<&Bytes> {
        match &self.0 {
            Operation::CreateAgent { body } => Some(body),
            _ => None,
        }
    }

    fn body_model(&self) -> BodyModel {
        match &self.0 {
            Operation::RetrieveDeal { .. } => Some(dealkit::Deal::SCHEMA),
            Operation::CreateAgent { .. } => Some(dealkit::Agent::SCHEMA),
            Operation::Undocumented(_) => None,
        }
    }

    fn build(&self, client: &dealkit::Client) -> dealkit::Call<RawResponse> {
        match &self.0 {
            Operation::RetrieveDeal { id } => client.deals().retrieve(&**id).raw_response(),
            Operation::CreateAgent { body } => build_create(client, body).raw_response(),
            Operation::Undocumented(request) => request.build(client),
        }
    }
}

fn build_create(client: &dealkit::Client, body: &Bytes) -> dealkit::Call<dealkit::Agent> {
    client.agents().create_from_text(body.clone())
}

impl RawRequest {
    fn build(&self, client: &dealkit::Client) -> dealkit::Call<RawResponse> {
        let segments: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        let mut call = client.request(self.method.clone(), segments);
        if let Some(json) = &self.json {
            call = call.json(json);
        }
        for (name, value) in &self.query {
            call = call.query(name, value);
        }
        for (name, value) in &self.headers {
            call = call.header(name, value);
        }
        call
    }
}

/// A create with an idempotency key, whose outcome a ledger records.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct CreateOnce {
    body: Bytes,
    idempotency_key: String,
    ledger: LedgerOptions,
    /// The label that the ledger records.
    label: Option<String>,
}

impl CreateOnce {
    fn send(
        &self,
        client: &dealkit::Client,
        options: Option<&Options>,
        observer: Observer,
    ) -> SentCall {
        let mut call = build_create(client, &self.body);
        if let Some(Options(options)) = options {
            call = call.options(options.clone());
        }
        let LedgerOptions {
            ledger,
            key_name,
            resend_unknown,
            resend_corrected,
            resolve,
            wait_in_flight,
        } = &self.ledger;
        let mut once_call = call.once(ledger, &self.idempotency_key).raw_response();
        if let Some(key_name) = key_name {
            once_call = once_call.key_name(key_name);
        }
        if let Some(label) = &self.label {
            once_call = once_call.label(label);
        }
        if *resend_unknown {
            once_call = once_call.resend_unknown();
        }
        if *resend_corrected {
            once_call = once_call.resend_corrected();
        }
        let mut resolve_requests = None;
        if *resolve {
            let (resolve, requests) = resolve_channel();
            (once_call, resolve_requests) = (once_call.resolve(resolve), Some(requests));
        }
        if *wait_in_flight {
            once_call = once_call.wait_in_flight();
        }
        let create_future = once_call.send_with(|call| observer.send(call));
        let result = create_future.map(|creation| CallResult::Creation(creation.into()));
        SentCall::new(result, resolve_requests)
    }
}

/// A [`Call`] or a [`CreateOnce`].
pub(crate) enum AnyCall<'py> {
    Plain(Bound<'py, Call>),
    Once(Bound<'py, CreateOnce>),
}

/// Not derived: derived code would try to read a [`CreateOnce`] as a [`Call`] first, and make a Python exception for that failure.
impl<'a, 'py> FromPyObject<'a, 'py> for AnyCall<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(call) = object.cast::<Call>() {
            return Ok(Self::Plain(call.to_owned()));
        }
        Ok(Self::Once(object.cast::<CreateOnce>()?.to_owned()))
    }
}

impl AnyCall<'_> {
    pub(crate) fn body_model(&self) -> BodyModel {
        match self {
            Self::Plain(call) => call.get().body_model(),
            Self::Once(_) => Some(dealkit::Agent::SCHEMA),
        }
    }

    /// Builds the call of the crate `dealkit`, with the options of the client and without options of this call.
    pub(crate) fn build(&self, client: &dealkit::Client) -> dealkit::Call<RawResponse> {
        match self {
            Self::Plain(call) => call.get().build(client),
            Self::Once(call) => build_create(client, &call.get().body).raw_response(),
        }
    }

    pub(crate) fn send(
        &self,
        client: &dealkit::Client,
        options: Option<&Options>,
        observer: Observer,
    ) -> SentCall {
        let call = match self {
            Self::Plain(call) => call.get().build(client),
            Self::Once(call) => return call.get().send(client, options, observer),
        };
        let response_future = observer.send(match options {
            Some(Options(options)) => call.options(options.clone()),
            None => call,
        });
        let result = response_future.map(|result| CallResult::Response(result.map_err(Arc::new)));
        SentCall::new(result, None)
    }
}

/// The options of a call, which override the client's options.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Options(pub(crate) CallOptions);

/// Reads the settings of a `Retry` object, except for the number of retries. Missing settings have their defaults. Returns `None`
/// if there is no `Retry` object.
pub(crate) fn parse_retry_policy(settings: &Settings<'_, '_>) -> Result<Option<RetryPolicy>> {
    if settings.number("has_retry", NumberKind::Bool)? != Some(true) {
        return Ok(None);
    }
    let mut policy = RetryPolicy::new();
    if let Some(delay) = settings.delay("initial_backoff")? {
        policy = policy.initial_backoff(delay);
    }
    if let Some(delay) = settings.delay("max_backoff")? {
        policy = policy.max_backoff(delay);
    }
    if let Some(retry) = settings.number("retry_non_idempotent", NumberKind::Bool)? {
        policy = policy.retry_non_idempotent(retry);
    }
    Ok(Some(policy))
}

/// Makes the options of a call from settings by name.
#[pyfunction]
pub(crate) fn call_options<'py>(settings: &Bound<'py, PyDict>) -> EntryResult<'py> {
    run_entry(settings.py(), || {
        let settings = Settings(settings);
        let mut options = apply_settings!(CallOptions::new(),
            timeout: settings.duration("timeout")?,
            retry: parse_retry_policy(&settings)?,
            max_retries: settings.number("max_retries", NumberKind::Count)?,
            unreadable: settings.unreadable()?,
        );
        for (name, value) in settings.pairs("extra_headers")? {
            options = options.header(name, value);
        }
        Ok(Options(options))
    })
}

/// Makes the call that retrieves a deal.
#[pyfunction]
pub(crate) fn retrieve_deal<'py>(id: &Bound<'py, PyAny>) -> EntryResult<'py> {
    let py = id.py();
    run_entry(py, || {
        let id = parse_text("id", id)?;
        let call = Call(Operation::RetrieveDeal { id });
        Ok(untrack(Bound::new(py, call)?))
    })
}

/// Makes the call that creates an agent from arguments by name. Arguments whose value is the object `omitted` are not sent.
///
/// Returns None if Python code must convert an argument first. `is_converted` is true after Python code has converted the
/// arguments.
#[pyfunction]
#[pyo3(signature = (arguments, omitted, validate, is_converted))]
pub(crate) fn create_agent<'py>(
    arguments: &Bound<'py, PyDict>,
    omitted: &Bound<'py, PyAny>,
    validate: bool,
    is_converted: bool,
) -> EntryResult<'py> {
    run_entry(arguments.py(), || {
        let body = agent_body::write_agent_body(arguments, omitted, validate, is_converted)?;
        Ok(body.map(|body| Call(Operation::CreateAgent { body: body.into() })))
    })
}

/// Makes a create with an idempotency key from a call that creates an agent.
#[pyfunction]
#[pyo3(signature = (call, idempotency_key, ledger, label))]
pub(crate) fn create_once<'py>(
    call: &Bound<'py, Call>,
    idempotency_key: &Bound<'py, PyAny>,
    ledger: &Bound<'py, LedgerOptions>,
    label: Option<String>,
) -> EntryResult<'py> {
    run_entry(call.py(), || {
        Ok(CreateOnce {
            body: call.get().create_body().cloned().unwrap_or_default(),
            idempotency_key: parse_text("idempotency_key", idempotency_key)?,
            ledger: ledger.get().clone(),
            label,
        })
    })
}

/// Makes a call of an undocumented operation. `json` is a tuple with one value, or None for no body.
#[pyfunction]
#[pyo3(signature = (method, segments, json, query, headers))]
pub(crate) fn raw_request<'py>(
    py: Python<'py>,
    method: &Bound<'py, PyAny>,
    segments: &Bound<'py, PyTuple>,
    json: Option<&Bound<'py, PyTuple>>,
    query: &Bound<'py, PyList>,
    headers: &Bound<'py, PyList>,
) -> EntryResult<'py> {
    run_entry(py, || {
        let name = parse_text("method", method)?;
        let method = Method::from_bytes(name.to_ascii_uppercase().as_bytes()).map_err(|_| {
            Failure::Config("method must be an HTTP method such as PATCH".to_owned())
        })?;
        let segments = segments.iter().enumerate();
        let segments = segments
            .map(|(index, segment)| parse_text(format_args!("segments[{index}]"), &segment))
            .collect::<Result<Vec<_>>>()?;
        let json = json
            .map(|json| write_json(&json.get_item(0)?))
            .transpose()?;
        let request = RawRequest {
            method,
            segments,
            json,
            query: parse_pairs("query", query)?,
            headers: parse_pairs("headers", headers)?,
        };
        Ok(Call(Operation::Undocumented(request)))
    })
}

/// Writes a value as JSON. The error contains all violations.
fn write_json(value: &Bound<'_, PyAny>) -> Result<Json> {
    let mut writer = Writer::default();
    writer.write_value(value, Location::Root);
    let (text, violations) = writer.finish()?;
    ValidationError::check(violations)?;
    Json::parse(text).map_err(|_| Failure::Value("json cannot be written as JSON".to_owned()))
}
