//! Connections and the calls on them: what is behind the Python classes Client and AsyncClient.

use std::{env, sync::Arc, time::Duration};

use dealkit::{BASE_URL_VARIABLE, RetryPolicy, SERVICE_KEY_VARIABLE};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyDict, PyInt, PyString},
};

use crate::{
    calls::{Call, Options, duration, pairs, text},
    convert, errors,
    many::Many,
    pending::{Mailbox, Pending},
    response::{self, RawResponse},
    runtime::{self, OfProcess},
};

/// Connection pools of one configuration.
///
/// There are two, made when they are needed: a connection lives on the runtime that made it, and waiting
/// callers have another one than awaiting callers.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Engine {
    settings: Settings,
    of_callers: OfProcess<dealkit::Client>,
    of_background: OfProcess<dealkit::Client>,
}

/// The configuration, as it was given.
struct Settings {
    base_url: String,
    service_key: String,
    connect_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    timeout: Option<Duration>,
    max_retries: Option<u32>,
    headers: Vec<(String, String)>,
    proxy: Option<String>,
    max_connections: Option<usize>,
    max_response_bytes: Option<u64>,
    allow_http: bool,
    user_agent: Option<String>,
}

impl Settings {
    fn client(&self) -> Result<dealkit::Client, dealkit::Error> {
        let mut builder = dealkit::Client::builder()
            .base_url(&self.base_url)
            .service_key(&self.service_key)
            .allow_http(self.allow_http);
        if let Some(seconds) = self.connect_timeout {
            builder = builder.connect_timeout(seconds);
        }
        if let Some(seconds) = self.attempt_timeout {
            builder = builder.attempt_timeout(seconds);
        }
        if let Some(seconds) = self.timeout {
            builder = builder.timeout(seconds);
        }
        if let Some(retries) = self.max_retries {
            builder = builder.retry(RetryPolicy::new().max_retries(retries));
        }
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy);
        }
        if let Some(connections) = self.max_connections {
            builder = builder.max_connections(connections);
        }
        if let Some(bytes) = self.max_response_bytes {
            builder = builder.max_response_bytes(bytes);
        }
        if let Some(user_agent) = &self.user_agent {
            builder = builder.user_agent(user_agent);
        }
        builder.build()
    }
}

/// A number that a setting must be.
const SECONDS: &str = "a number of seconds";
pub(crate) const COUNT: &str = "a whole number, 0 or more";
pub(crate) const PORT: &str = "a whole number from 0 to 65535";
pub(crate) const BOOL: &str = "a bool";

/// A setting that is a number or a bool.
pub(crate) fn setting<'py, T>(
    settings: &Bound<'py, PyDict>,
    name: &str,
    expected: &str,
) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let Some(value) = settings.get_item(name)?.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    // A bool is an int to Python, and never meant as a number here.
    let is_bool = value.is_instance_of::<PyBool>();
    let is_right_type = match expected {
        COUNT | PORT => !is_bool && value.is_instance_of::<PyInt>(),
        SECONDS => !is_bool && !value.is_instance_of::<PyString>(),
        _ => is_bool,
    };
    let wrong_type = || {
        let found = convert::type_name(&value);
        PyTypeError::new_err(format!("{name} must be {expected}, not {found}"))
    };
    if !is_right_type {
        return Err(wrong_type());
    }
    match value.extract() {
        Ok(setting) => Ok(Some(setting)),
        Err(_) if value.is_instance_of::<PyInt>() => {
            // The value itself is never repeated; beyond which end it is says enough.
            let found = if value.lt(0)? {
                "a negative one"
            } else {
                "one so large"
            };
            let text = format!("{name} must be {expected}, not {found}");
            Err(errors::config(value.py(), &text))
        }
        Err(_) => Err(wrong_type()),
    }
}

/// A setting that is a number of seconds.
fn time(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Duration>> {
    let seconds = setting(settings, name, SECONDS)?;
    seconds.map(|seconds| duration(name, seconds)).transpose()
}

/// Checks the settings in which clients that share their connections can differ.
#[pyfunction]
pub(crate) fn check_options(settings: &Bound<'_, PyDict>) -> PyResult<()> {
    time(settings, "timeout")?;
    setting::<u32>(settings, "max_retries", COUNT)?;
    Ok(())
}

/// A setting that is a text.
pub(crate) fn text_setting(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<String>> {
    match settings.get_item(name)?.filter(|value| !value.is_none()) {
        Some(value) => text(name, &value).map(Some),
        None => Ok(None),
    }
}

/// A setting, or what the environment says in its place.
fn from_environment(settings: &Bound<'_, PyDict>, name: &str, variable: &str) -> PyResult<String> {
    match text_setting(settings, name)? {
        Some(value) => Ok(value),
        None => env::var(variable).map_err(|_| {
            errors::config(
                settings.py(),
                &format!("{name} is missing: pass it, or set the environment variable {variable}"),
            )
        }),
    }
}

#[pymethods]
impl Engine {
    #[new]
    fn new(py: Python<'_>, settings: &Bound<'_, PyDict>, awaits: bool) -> PyResult<Self> {
        let headers = match settings.get_item("headers")? {
            Some(headers) => pairs("headers", headers.extract()?)?,
            None => Vec::new(),
        };
        let engine = Self {
            settings: Settings {
                base_url: from_environment(settings, "base_url", BASE_URL_VARIABLE)?,
                service_key: from_environment(settings, "service_key", SERVICE_KEY_VARIABLE)?,
                connect_timeout: time(settings, "connect")?,
                attempt_timeout: time(settings, "attempt")?,
                timeout: time(settings, "timeout")?,
                max_retries: setting(settings, "max_retries", COUNT)?,
                headers,
                proxy: text_setting(settings, "proxy")?,
                max_connections: setting(settings, "max_connections", COUNT)?,
                max_response_bytes: setting(settings, "max_response_bytes", COUNT)?,
                allow_http: setting(settings, "allow_http", BOOL)?.unwrap_or(false),
                user_agent: text_setting(settings, "user_agent")?,
            },
            of_callers: OfProcess::new(),
            of_background: OfProcess::new(),
        };
        // What is wrong with the configuration comes out here and not at the first call.
        if awaits {
            engine.for_background(py)?;
        } else {
            engine.for_callers(py)?;
        }
        Ok(engine)
    }

    /// The base URL.
    #[getter]
    fn base_url(&self) -> &str {
        &self.settings.base_url
    }

    /// The key. For pickling only.
    #[getter]
    fn service_key(&self) -> &str {
        &self.settings.service_key
    }

    /// Makes a call and waits for its end.
    fn send<'py>(
        &self,
        py: Python<'py>,
        call: &Bound<'py, Call>,
        timeout: Option<f64>,
        max_retries: Option<u32>,
        raw: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = call.get();
        let options = Options::new(timeout, max_retries)?;
        let request = call.on(&self.for_callers(py)?, options);
        match runtime::wait(py, request.send())? {
            Ok(answer) if raw => {
                Ok(Bound::new(py, RawResponse::new(answer, call.read_as))?.into_any())
            }
            Ok(answer) => response::read(py, &answer, call.read_as),
            Err(error) => Err(errors::to_python(py, &error)),
        }
    }

    /// Begins a call whose outcome goes to a future of the mailbox's event loop.
    #[allow(
        clippy::too_many_arguments,
        reason = "an internal function with one caller"
    )]
    fn start<'py>(
        &self,
        py: Python<'py>,
        call: &Bound<'py, Call>,
        timeout: Option<f64>,
        max_retries: Option<u32>,
        raw: bool,
        mailbox: &Bound<'py, Mailbox>,
        future: Py<PyAny>,
    ) -> PyResult<Pending> {
        let call = call.get();
        let options = Options::new(timeout, max_retries)?;
        let request = call.on(&self.for_background(py)?, options);
        let mailbox = Arc::clone(&mailbox.get().inner);
        Pending::start(py, request, call.read_as, raw, mailbox, future)
    }

    /// Begins to retrieve many deals, whose identifiers are pushed one at a time.
    fn many(
        &self,
        py: Python<'_>,
        ordered: bool,
        timeout: Option<f64>,
        max_retries: Option<u32>,
    ) -> PyResult<Many> {
        let options = Options::new(timeout, max_retries)?;
        Many::start(py, &self.for_background(py)?, ordered, options)
    }
}

impl Engine {
    fn for_callers(&self, py: Python<'_>) -> PyResult<dealkit::Client> {
        self.client(py, &self.of_callers)
    }

    fn for_background(&self, py: Python<'_>) -> PyResult<dealkit::Client> {
        self.client(py, &self.of_background)
    }

    fn client(&self, py: Python<'_>, of: &OfProcess<dealkit::Client>) -> PyResult<dealkit::Client> {
        of.get_or_make(py, || self.settings.client())
            .map_err(|error| errors::to_python(py, &error))
    }
}
