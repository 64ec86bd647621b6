//! Connections and the calls on them: what is behind the Python classes Client and AsyncClient.

use std::{env, sync::Arc, time::Duration};

use dealkit::{BASE_URL_VARIABLE, RetryPolicy, SERVICE_KEY_VARIABLE};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    arguments::{Expected, Settings},
    calls::{Call, Options},
    failure::{Failure, Outcome},
    gil,
    many::Many,
    pending::{Mailbox, Pending},
    runtime::{self, PerProcess},
    waiting::Waiting,
};

/// Connection pools of one configuration.
///
/// There are two, made when they are needed: a connection lives on the runtime that made it, and waiting
/// callers have another one than awaiting callers.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Engine {
    config: Config,
    of_callers: PerProcess<dealkit::Client>,
    of_background: PerProcess<dealkit::Client>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The thread in the background closes its connections by itself.
        if let Some(client) = self.of_callers.take() {
            runtime::drop_of_callers(client);
        }
    }
}

/// The configuration, as it was given.
struct Config {
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

impl Config {
    fn new(settings: &Settings<'_, '_>) -> Outcome<Self> {
        Ok(Self {
            base_url: or_environment(settings, "base_url", BASE_URL_VARIABLE)?,
            service_key: or_environment(settings, "service_key", SERVICE_KEY_VARIABLE)?,
            connect_timeout: settings.duration("connect")?,
            attempt_timeout: settings.duration("attempt")?,
            timeout: settings.duration("timeout")?,
            max_retries: settings.number("max_retries", Expected::Count)?,
            headers: settings.pairs("headers")?,
            proxy: settings.text("proxy")?,
            max_connections: settings.number("max_connections", Expected::Count)?,
            max_response_bytes: settings.number("max_response_bytes", Expected::Count)?,
            allow_http: settings
                .number("allow_http", Expected::Bool)?
                .unwrap_or(false),
            user_agent: settings.text("user_agent")?,
        })
    }

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
            builder = builder.max_idle_connections(connections);
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

/// A setting, or what the environment says in its place.
fn or_environment(settings: &Settings<'_, '_>, name: &str, variable: &str) -> Outcome<String> {
    match settings.text(name)? {
        Some(value) => Ok(value),
        None => env::var(variable).map_err(|_| {
            Failure::Config(format!(
                "{name} is missing: pass it, or set the environment variable {variable}"
            ))
        }),
    }
}

/// Sets an Engine up, for callers that await or that wait.
#[pyfunction]
pub(crate) fn open_engine<'py>(
    settings: &Bound<'py, PyDict>,
    awaits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    gil::entry(settings.py(), || {
        let engine = Engine {
            config: Config::new(&Settings(settings))?,
            of_callers: PerProcess::new(),
            of_background: PerProcess::new(),
        };
        // What is wrong with the configuration comes out here and not at the first call.
        if awaits {
            engine.for_background()?;
        } else {
            engine.for_callers()?;
        }
        Ok(engine)
    })
}

/// Checks the settings in which clients that share their connections can differ.
#[pyfunction]
pub(crate) fn check_options<'py>(settings: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    gil::entry(settings.py(), || {
        let settings = Settings(settings);
        settings.duration("timeout")?;
        settings.number::<u32>("max_retries", Expected::Count)?;
        Ok(())
    })
}

#[pymethods]
impl Engine {
    /// The base URL.
    #[getter]
    fn base_url(&self) -> &str {
        &self.config.base_url
    }

    /// The key. For pickling only.
    #[getter]
    fn service_key(&self) -> &str {
        &self.config.service_key
    }

    /// Makes a call and waits a little. Returns what it came to, or a Waiting while it is in flight.
    fn send<'py>(
        &self,
        py: Python<'py>,
        call: &Bound<'py, Call>,
        timeout: Option<f64>,
        max_retries: Option<u32>,
        raw: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = call.get();
        let begin = || {
            let options = Options::new(timeout, max_retries)?;
            let request = call.on(&self.for_callers()?, options);
            Ok(Bound::new(py, Waiting::new(request, call.read_as, raw)?)?)
        };
        match gil::uncollected(py, || Ok(begin()))? {
            Ok(waiting) => Waiting::wait(&waiting),
            Err(failure) => gil::entry(py, || Err::<(), _>(failure)),
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
    ) -> PyResult<Bound<'py, PyAny>> {
        gil::end_if_left_behind(py);
        gil::entry(py, || {
            let call = call.get();
            let options = Options::new(timeout, max_retries)?;
            let request = call.on(&self.for_background()?, options);
            let inbox = Arc::clone(&mailbox.get().inner);
            Pending::start(request, call.read_as, raw, inbox, future)
        })
    }

    /// Begins to retrieve many deals, whose identifiers are pushed one at a time.
    fn many<'py>(
        &self,
        py: Python<'py>,
        ordered: bool,
        timeout: Option<f64>,
        max_retries: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gil::end_if_left_behind(py);
        gil::entry(py, || {
            let options = Options::new(timeout, max_retries)?;
            Many::start(&self.for_background()?, ordered, options)
        })
    }
}

impl Engine {
    fn for_callers(&self) -> Outcome<dealkit::Client> {
        Ok(self.of_callers.get_or_make(|| self.config.client())?)
    }

    fn for_background(&self) -> Outcome<dealkit::Client> {
        Ok(self.of_background.get_or_make(|| self.config.client())?)
    }
}
