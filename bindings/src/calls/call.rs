//! The calls that can be made: each knows how to make its request and how to read its response.

use std::{ffi::OsString, sync::Arc};

use bytes::Bytes;
use dealkit::{CallOptions, Json, Method, RawResponse, RetryPolicy, ValidationError};
use futures_util::FutureExt as _;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    calls::watch::{Observer, Sent},
    models::{
        agent_body,
        item::Reply,
        response::ReadAs,
        write::{Place, Writer},
    },
    python::{
        arguments::{self, Expected, Settings, pairs, set, text},
        failure::{Failure, Outcome, Returned, entry},
        untracked::untracked,
    },
};

type Make = Box<dyn Fn(&dealkit::Client) -> dealkit::Call<RawResponse> + Send + Sync>;

/// A call, which can be made with an Engine as often as needed.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Call {
    make: Make,
    pub(crate) read_as: ReadAs,
    id: Option<String>,
    pub(crate) body: Option<Bytes>,
    once: Option<Once>,
}

/// Makes the call with a key, and reports on it.
type Once = Box<dyn Fn(&dealkit::Client, Option<&Options>, Observer) -> Sent + Send + Sync>;

#[pymethods]
impl Call {
    /// The identifier that is requested, if there is one; errors keep it.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Call {
    /// A call, from the function that makes it on a client.
    fn new(
        read_as: ReadAs,
        make: impl Fn(&dealkit::Client) -> dealkit::Call<RawResponse> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Box::new(make),
            read_as,
            id: None,
            body: None,
            once: None,
        }
    }

    fn creating(body: Bytes) -> Self {
        let sent = body.clone();
        let call = Self::new(Some(dealkit::Agent::SCHEMA), move |client| {
            client
                .agents()
                .create_from_text(sent.clone())
                .raw_response()
        });
        Self {
            body: Some(body),
            ..call
        }
    }

    pub(crate) fn send(
        &self,
        client: &dealkit::Client,
        options: Option<&Options>,
        observer: Observer,
    ) -> Sent {
        if let Some(once) = &self.once {
            return once(client, options, observer);
        }
        let sent = observer.send(self.on(client, options));
        Box::pin(sent.map(|result| Reply::Response(result.map_err(Arc::new))))
    }

    pub(crate) fn on(
        &self,
        client: &dealkit::Client,
        options: Option<&Options>,
    ) -> dealkit::Call<RawResponse> {
        let call = (self.make)(client);
        match options {
            Some(options) => call.options(options.0.clone()),
            None => call,
        }
    }
}

/// The options of a call, which override the client's own.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Options(pub(crate) CallOptions);

/// What is retried, except for how often: the settings of a `Retry`, which has all of them.
pub(crate) fn retry(settings: &Settings<'_, '_>) -> Outcome<Option<RetryPolicy>> {
    let delays = (
        settings.delay("initial_backoff")?,
        settings.delay("max_backoff")?,
    );
    let (Some(initial), Some(max)) = delays else {
        return Ok(None);
    };
    let non_idempotent = settings.number("retry_non_idempotent", Expected::Bool)?;
    let policy = RetryPolicy::new().initial_backoff(initial).max_backoff(max);
    Ok(Some(
        policy.retry_non_idempotent(non_idempotent.unwrap_or_default()),
    ))
}

#[pyfunction]
pub(crate) fn call_options<'py>(settings: &Bound<'py, PyDict>) -> Returned<'py> {
    entry(settings.py(), || {
        let settings = Settings(settings);
        let mut options = set!(CallOptions::new(),
            timeout: settings.duration("timeout")?,
            retry: retry(&settings)?,
            max_retries: settings.number("max_retries", Expected::Count)?,
            unreadable: settings.unreadable()?,
        );
        for (name, value) in settings.pairs("extra_headers")? {
            options = options.header(name, value);
        }
        Ok(Options(options))
    })
}

#[pyfunction]
pub(crate) fn retrieve_deal<'py>(id: &Bound<'py, PyAny>) -> Returned<'py> {
    let py = id.py();
    entry(py, || {
        let id = text("id", id)?;
        let given = id.clone();
        let call = Call::new(Some(dealkit::Deal::SCHEMA), move |client| {
            client.deals().retrieve(&*given).raw_response()
        });
        let id = Some(id);
        Ok(untracked(Bound::new(py, Call { id, ..call })?))
    })
}

/// The call that creates an agent from the fields of the request, by name; those that are `omitted` are not sent.
/// None if Python code has to convert something first and has not done so yet.
#[pyfunction]
pub(crate) fn create_agent<'py>(
    py: Python<'py>,
    given: &Bound<'py, PyDict>,
    omitted: &Bound<'py, PyAny>,
    validate: bool,
    is_converted: bool,
) -> Returned<'py> {
    entry(py, || {
        let body = agent_body::written(given, omitted, validate, is_converted)?;
        Ok(body.map(|body| Call::creating(body.into())))
    })
}

/// A call that creates an agent, with a key: its ledger's path, the name of its keys, whether it is sent again if nobody knows
/// what became of it, and whether it waits for whoever is sending it.
#[pyfunction]
pub(crate) fn create_once<'py>(
    call: &Bound<'py, Call>,
    key: &Bound<'py, PyAny>,
    ledger: OsString,
    keys: Option<String>,
    resend_unknown: bool,
    wait_in_flight: bool,
) -> Returned<'py> {
    entry(call.py(), || {
        let (ledger, key) = (arguments::ledger(ledger)?, text("key", key)?);
        let body = call.get().body.clone().unwrap_or_default();
        let call = Call::creating(body.clone());
        let once: Once = Box::new(move |client, options, observer| {
            let mut call = client.agents().create_from_text(body.clone());
            if let Some(Options(options)) = options {
                call = call.options(options.clone());
            }
            let mut once = call.once(&ledger, &key).raw_response();
            if let Some(keys) = &keys {
                once = once.key_name(keys);
            }
            if resend_unknown {
                once = once.resend_unknown();
            }
            if wait_in_flight {
                once = once.wait_in_flight();
            }
            let sent = once.send_with(|call| observer.send(call));
            Box::pin(sent.map(|creation| Reply::Creation(creation.into())))
        });
        Ok(Call {
            once: Some(once),
            ..call
        })
    })
}

/// A call of an undocumented operation; `json` is a tuple of one value, or None for no body.
#[pyfunction]
#[pyo3(signature = (method, segments, json, query, headers))]
pub(crate) fn raw_request<'py>(
    py: Python<'py>,
    method: &Bound<'py, PyAny>,
    segments: &Bound<'py, PyTuple>,
    json: Option<&Bound<'py, PyTuple>>,
    query: &Bound<'py, PyList>,
    headers: &Bound<'py, PyList>,
) -> Returned<'py> {
    entry(py, || {
        let name = text("method", method)?;
        let method = Method::from_bytes(name.to_ascii_uppercase().as_bytes()).map_err(|_| {
            Failure::Config("method must be an HTTP method such as PATCH".to_owned())
        })?;
        let segments = segments.iter().enumerate();
        let segments = segments
            .map(|(at, segment)| text(format_args!("segments[{at}]"), &segment))
            .collect::<Outcome<Vec<_>>>()?;
        let json = json.map(|json| written(&json.get_item(0)?)).transpose()?;
        let (query, headers) = (pairs("query", query)?, pairs("headers", headers)?);
        Ok(Call::new(None, move |client| {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            let mut call = client.request(method.clone(), segments);
            if let Some(json) = &json {
                call = call.json(json);
            }
            for (name, value) in &query {
                call = call.query(name, value);
            }
            for (name, value) in &headers {
                call = call.header(name, value);
            }
            call
        }))
    })
}

/// A value as JSON, or every place where it cannot be.
fn written(value: &Bound<'_, PyAny>) -> Outcome<Json> {
    let mut writer = Writer::default();
    writer.value(value, Place::Whole);
    let (text, wrong) = writer.finish()?;
    ValidationError::check(wrong)?;
    Json::parse(text).map_err(|_| Failure::Value("json cannot be written as JSON".to_owned()))
}
