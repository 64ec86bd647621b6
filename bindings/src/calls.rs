//! What can be called: a value that knows how to make its request and how its answer is read.

use std::{collections::BTreeSet, time::Duration};

use dealkit::{
    AgentProfile, CreateAgent, Json, Method, RawResponse, RetryPolicy, UnknownMembers,
    ValidationError, Violation,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDate, PyDict, PyMapping, PyString},
};

use crate::{convert, errors, response::ReadAs, write::Writer};

/// A call that can be made: with an Engine, as often as need be.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Call {
    request: Request,
    pub(crate) read_as: ReadAs,
}

enum Request {
    RetrieveDeal {
        id: String,
    },
    CreateAgent {
        body: Json,
    },
    Other {
        method: Method,
        segments: Vec<String>,
        json: Option<Json>,
        query: Vec<(String, String)>,
        headers: Vec<(String, String)>,
    },
}

/// What a call can have in place of the client's own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_retries: Option<u32>,
}

impl Options {
    pub(crate) fn new(timeout: Option<f64>, max_retries: Option<u32>) -> PyResult<Self> {
        Ok(Self {
            timeout: timeout
                .map(|seconds| duration("timeout", seconds))
                .transpose()?,
            max_retries,
        })
    }

    pub(crate) fn retry(&self) -> Option<RetryPolicy> {
        let retries = self.max_retries?;
        Some(RetryPolicy::new().max_retries(retries))
    }
}

/// A number of seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(Python::attach(|py| {
            let text = format!("{name} must be a number of seconds, more than zero and finite");
            errors::config(py, &text)
        })),
    }
}

impl Call {
    /// The call on a client.
    pub(crate) fn on(
        &self,
        client: &dealkit::Client,
        options: Options,
    ) -> dealkit::Call<RawResponse> {
        let mut call = match &self.request {
            Request::RetrieveDeal { id } => client.deals().retrieve(id).raw_response(),
            Request::CreateAgent { body } => {
                client.agents().create_json(body.clone()).raw_response()
            }
            Request::Other {
                method,
                segments,
                json,
                query,
                headers,
            } => {
                let mut call = client.request(method.clone(), segments);
                if let Some(json) = json {
                    call = call.json(json);
                }
                for (name, value) in query {
                    call = call.query(name, value);
                }
                for (name, value) in headers {
                    call = call.header(name, value);
                }
                call
            }
        };
        if let Some(timeout) = options.timeout {
            call = call.timeout(timeout);
        }
        if let Some(policy) = options.retry() {
            call = call.retry(policy);
        }
        call
    }
}

/// A str, or a TypeError that names the argument.
pub(crate) fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| {
        let found = convert::type_name(value);
        PyTypeError::new_err(format!("{name} must be a str, not {found}"))
    })?;
    let text = text.to_str().map_err(|_| {
        PyValueError::new_err(format!(
            "{name} holds half of a surrogate pair, which cannot be sent"
        ))
    })?;
    Ok(text.to_owned())
}

/// The call that retrieves a deal.
#[pyfunction]
pub(crate) fn retrieve_deal(id: &Bound<'_, PyAny>) -> PyResult<Call> {
    Ok(Call {
        request: Request::RetrieveDeal {
            id: text("id", id)?,
        },
        read_as: ReadAs::Deal,
    })
}

/// The call that creates an agent of the members of the request, by name.
#[pyfunction]
pub(crate) fn create_agent(
    py: Python<'_>,
    members: &Bound<'_, PyDict>,
    validate: bool,
) -> PyResult<Call> {
    let body = PyDict::new(py);
    for (name, value) in members {
        let value = if value.is_instance_of::<PyDate>() {
            // The one member that has a Python type of its own.
            value.call_method0("isoformat")?
        } else if let (true, Ok(profile)) = (name.eq("profile")?, value.cast::<PyMapping>()) {
            with_wire_names(profile)?.into_any()
        } else {
            value
        };
        body.set_item(name, value)?;
    }
    let mut writer = Writer::default();
    writer.object(body.iter());
    let mut violations = Vec::new();
    let json = writer
        .json()
        .ok_or_else(|| PyValueError::new_err("the request cannot be written as JSON"))?;
    if validate && let Err(error) = CreateAgent::from_json(&json, UnknownMembers::Ignore) {
        violations.extend(error.violations().iter().cloned());
    }
    ValidationError::unless_empty(merged(violations, writer.wrong))
        .map_err(|error| errors::to_python(py, &error.into()))?;
    Ok(Call {
        request: Request::CreateAgent { body: json },
        read_as: ReadAs::Agent,
    })
}

/// The violations of the rules, and what could not be written: it counts in the place of what the rules
/// say of the null that stands there.
fn merged(mut violations: Vec<Violation>, unwritable: Vec<Violation>) -> Vec<Violation> {
    let mut others = Vec::new();
    for wrong in unwritable {
        match violations
            .iter_mut()
            .find(|violation| violation.pointer == wrong.pointer)
        {
            Some(violation) => *violation = wrong,
            None => others.push(wrong),
        }
    }
    violations.extend(others);
    violations
}

/// A profile whose members have the names of the wire: `user_id` is `userId`. What is not known stays.
fn with_wire_names<'py>(profile: &Bound<'py, PyMapping>) -> PyResult<Bound<'py, PyDict>> {
    let py = profile.py();
    let given = PyDict::new(py);
    given.update(profile)?;
    let named = PyDict::new(py);
    let mut seen = BTreeSet::new();
    for (name, value) in &given {
        let wire = name.cast::<PyString>().ok().and_then(|name| {
            let name = name.to_str().ok()?;
            AgentProfile::known_members().find(|wire| snake_case(wire) == name || *wire == name)
        });
        match wire {
            Some(wire) if seen.insert(wire) => named.set_item(wire, value)?,
            Some(wire) => {
                let snake = snake_case(wire);
                return Err(PyTypeError::new_err(format!(
                    "profile names one member twice: {snake} is {wire}"
                )));
            }
            None => named.set_item(name, value)?,
        }
    }
    Ok(named)
}

/// `partnerUUID` is `partner_uuid`.
fn snake_case(wire: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for letter in wire.chars() {
        if letter.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = letter.is_ascii_lowercase();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// A call of an operation that the specification does not show.
#[pyfunction]
#[pyo3(signature = (method, segments, json, query, headers))]
pub(crate) fn other(
    py: Python<'_>,
    method: &Bound<'_, PyAny>,
    segments: Vec<Bound<'_, PyAny>>,
    json: Option<(Bound<'_, PyAny>,)>,
    query: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    headers: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
) -> PyResult<Call> {
    let name = text("method", method)?;
    let method = Method::from_bytes(name.to_ascii_uppercase().as_bytes())
        .map_err(|_| errors::config(py, "method must be an HTTP method such as PATCH"))?;
    let segments = segments.iter().enumerate();
    let segments = segments
        .map(|(at, segment)| text(&format!("segments[{at}]"), segment))
        .collect::<PyResult<_>>()?;
    let json = match json {
        Some((json,)) => {
            let mut writer = Writer::default();
            writer.value(&json);
            let body = writer.json();
            ValidationError::unless_empty(writer.wrong)
                .map_err(|error| errors::to_python(py, &error.into()))?;
            body
        }
        None => None,
    };
    Ok(Call {
        request: Request::Other {
            method,
            segments,
            json,
            query: pairs("query", query)?,
            headers: pairs("headers", headers)?,
        },
        read_as: ReadAs::Json,
    })
}

/// Names and values, all of them text.
pub(crate) fn pairs(
    what: &str,
    pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
) -> PyResult<Vec<(String, String)>> {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = text(&format!("a name in {what}"), name)?;
        let value = text(&format!("the value of {name} in {what}"), value)?;
        Ok((name, value))
    });
    pairs.collect()
}
