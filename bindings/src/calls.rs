//! What can be called: a value that knows how to make its request and how its response is read.

use std::{collections::BTreeSet, sync::LazyLock, time::Duration};

use dealkit::{
    AgentProfile, CreateAgent, Json, Method, RawResponse, RetrieveMany, RetryPolicy, UnknownFields,
    ValidationError, Violation, ViolationCode,
};
use pyo3::{
    prelude::*,
    types::{PyDate, PyDateTime, PyDict, PyFloat, PyList, PyString, PyTuple},
};

use crate::{
    arguments::{Expected, Settings, pairs, text},
    builtin,
    failure::{Failure, Outcome, entry},
    response::ReadAs,
    write::Writer,
};

/// Makes a call on a client.
type Make = Box<dyn Fn(&dealkit::Client) -> dealkit::Call<RawResponse> + Send + Sync>;

/// A call that can be made: with an Engine, as often as need be.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Call {
    make: Make,
    pub(crate) read_as: ReadAs,
    /// What is asked for, if the call has one identifier.
    id: Option<String>,
}

#[pymethods]
impl Call {
    /// The identifier of what is asked for, where there is one: an error keeps it.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Call {
    /// A call of what makes it on a client.
    fn new(
        read_as: ReadAs,
        make: impl Fn(&dealkit::Client) -> dealkit::Call<RawResponse> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Box::new(make),
            read_as,
            id: None,
        }
    }

    /// The call on a client.
    pub(crate) fn on(
        &self,
        client: &dealkit::Client,
        options: Option<&Options>,
    ) -> dealkit::Call<RawResponse> {
        let mut call = (self.make)(client);
        let Some(options) = options else {
            return call;
        };
        if let Some(timeout) = options.timeout {
            call = call.timeout(timeout);
        }
        if let Some(policy) = options.retry() {
            call = call.retry(policy);
        }
        for (name, value) in &options.headers {
            call = call.header(name, value);
        }
        call
    }
}

/// What a call can have in place of the client's own.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Options {
    timeout: Option<Duration>,
    max_retries: Option<u32>,
    headers: Vec<(String, String)>,
}

impl Options {
    /// Many calls with these options.
    pub(crate) fn on_many<I, T: 'static>(
        &self,
        mut many: RetrieveMany<I, T>,
    ) -> RetrieveMany<I, T> {
        if let Some(timeout) = self.timeout {
            many = many.timeout(timeout);
        }
        if let Some(policy) = self.retry() {
            many = many.retry(policy);
        }
        for (name, value) in &self.headers {
            many = many.header(name, value);
        }
        many
    }

    fn retry(&self) -> Option<RetryPolicy> {
        let retries = self.max_retries?;
        Some(RetryPolicy::new().max_retries(retries))
    }
}

/// The options of a call, by name.
#[pyfunction]
pub(crate) fn call_options<'py>(settings: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    entry(settings.py(), || {
        let settings = Settings(settings);
        Ok(Options {
            timeout: settings.duration("timeout")?,
            max_retries: settings.number("max_retries", Expected::Count)?,
            headers: settings.pairs("extra_headers")?,
        })
    })
}

/// The call that retrieves a deal.
#[pyfunction]
pub(crate) fn retrieve_deal<'py>(id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    entry(id.py(), || {
        let id = text("id", id)?;
        let given = id.clone();
        let call = Call::new(ReadAs::Deal, move |client| {
            client.deals().retrieve(&given).raw_response()
        });
        Ok(Call {
            id: Some(id),
            ..call
        })
    })
}

/// The call that creates an agent of the fields of the request, by name.
#[pyfunction]
pub(crate) fn create_agent<'py>(
    py: Python<'py>,
    given: &Bound<'py, PyDict>,
    validate: bool,
) -> PyResult<Bound<'py, PyAny>> {
    entry(py, || {
        let json = create_agent_json(given, validate)?;
        Ok(Call::new(ReadAs::Agent, move |client| {
            client.agents().create_json(json.clone()).raw_response()
        }))
    })
}

fn create_agent_json(given: &Bound<'_, PyDict>, validate: bool) -> Outcome<Json> {
    let py = given.py();
    let body = PyDict::new(py);
    let mut missing = Vec::new();
    let mut datetimes = Vec::new();
    for (name, value) in given {
        let is = |field: &str| name.cast::<PyString>().is_ok_and(|name| name == field);
        let value = if let Some(found) = missing_value(&value) {
            missing.push((format!("/{}", name.extract::<String>()?), found));
            py.None().into_bound(py)
        } else if is("date_of_birth") && value.is_instance_of::<PyDateTime>() {
            datetimes.push(Violation::new(
                "/date_of_birth",
                ViolationCode::InvalidDate,
                "must be a date, got a datetime; pass .date()",
            ));
            py.None().into_bound(py)
        } else if let (true, Ok(profile)) = (is("profile"), value.cast::<PyDict>()) {
            with_wire_names(profile)?.into_any()
        } else if let Some(text) = date_text(&value) {
            PyString::new(py, &text).into_any()
        } else {
            value
        };
        body.set_item(name, value)?;
    }
    let mut writer = Writer::default();
    writer.object(body.iter());
    let (json, wrong) = writer.finish()?;
    let json =
        json.ok_or_else(|| Failure::Value("the request cannot be written as JSON".to_owned()))?;
    let mut violations = Vec::new();
    if validate && let Err(error) = CreateAgent::from_json(&json, UnknownFields::Ignore) {
        violations.extend(error.violations().iter().cloned());
    }
    let missing = missing
        .into_iter()
        .map(|(pointer, found)| missing_violation(&violations, pointer, found));
    let wrong = missing.chain(datetimes).chain(wrong).collect();
    ValidationError::check(merged(violations, wrong))?;
    Ok(json)
}

/// What stands for no value in a DataFrame, and is none that could be sent: found by its type alone.
fn missing_value(value: &Bound<'_, PyAny>) -> Option<&'static str> {
    // What a request mostly holds. The name of a type takes its time.
    if value.is_none() || value.is_instance_of::<PyString>() || value.is_instance_of::<PyDict>() {
        return None;
    }
    match &*builtin::type_name(value) {
        "NAType" => Some("pandas.NA"),
        "NaTType" => Some("pandas.NaT"),
        _ => {
            let float = value.cast::<PyFloat>().ok()?;
            float.value().is_nan().then_some("a float NaN")
        }
    }
}

/// The violation of what stands for no value. The rules have seen a null in its place, and say what must be
/// there and whether it can be left out.
fn missing_violation(violations: &[Violation], pointer: String, found: &str) -> Violation {
    let of_null = violations
        .iter()
        .find(|violation| violation.pointer == pointer)
        .map(|violation| {
            violation
                .detail
                .replace("got null", &format!("got {found}"))
        });
    let detail = of_null.unwrap_or_else(|| format!("must not be {found}; leave it out instead"));
    Violation::new(pointer, ViolationCode::WrongType, detail)
}

/// A date as text: the one field that has a Python type of its own. A datetime is not a date.
fn date_text(value: &Bound<'_, PyAny>) -> Option<String> {
    let date = value.cast::<PyDate>().ok()?;
    let is_date = !value.is_instance_of::<PyDateTime>();
    is_date
        .then(|| builtin::day(date))
        .flatten()
        .map(dealkit::scalar::date_text)
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

/// The documented fields of a profile, by their names in Python and on the wire.
static PROFILE_FIELDS: LazyLock<Vec<(String, &'static str)>> = LazyLock::new(|| {
    AgentProfile::known_fields()
        .map(|wire| (snake_case(wire), wire))
        .collect()
});

/// A profile whose fields have the names of the wire: `user_id` is `userId`. What is not known stays.
fn with_wire_names<'py>(profile: &Bound<'py, PyDict>) -> Outcome<Bound<'py, PyDict>> {
    let named = PyDict::new(profile.py());
    let mut seen = BTreeSet::new();
    for (name, value) in profile {
        let wire = name.cast::<PyString>().ok().and_then(|name| {
            let name = name.to_str().ok()?;
            let mut fields = PROFILE_FIELDS.iter();
            let field = fields.find(|(snake, wire)| snake == name || *wire == name);
            field.map(|(_, wire)| *wire)
        });
        match wire {
            Some(wire) if seen.insert(wire) => named.set_item(wire, value)?,
            Some(wire) => {
                let snake = snake_case(wire);
                return Err(Failure::Type(format!(
                    "profile names one field twice: {snake} is {wire}"
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
) -> PyResult<Bound<'py, PyAny>> {
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
        Ok(Call::new(ReadAs::Json, move |client| {
            let mut call = client.request(method.clone(), &segments);
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
    writer.value(value);
    let (json, wrong) = writer.finish()?;
    ValidationError::check(wrong)?;
    json.ok_or_else(|| Failure::Value("json cannot be written as JSON".to_owned()))
}
