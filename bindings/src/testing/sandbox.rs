//! The embedded server, for `dealkit.testing`.

use std::{
    process,
    sync::{Mutex, MutexGuard, PoisonError},
    time::UNIX_EPOCH,
};

use dealkit::{Json, Unreadable};
use dealkit_server::{
    CreatedAgent, Fault, RateLimit, Reading, RecordedRequest, Sandbox, Service, Wanted,
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};
use serde::Serialize;

use crate::{
    calls::runtime::{self, SIGNAL_POLL_INTERVAL},
    json::value as json,
    models::{model, schema::class},
    python::{
        arguments::{Expected, Settings, set, text},
        document::Document,
        failure::{Failure, Outcome, entry, header_pairs},
        gil,
    },
};

/// The names of the readings of the specification.
pub(crate) fn readings(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, Reading::ALL.iter().map(|reading| reading.name()))
}

/// A running server.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct NativeSandbox {
    sandbox: Mutex<Option<Sandbox>>,
    url: String,
    service_key: String,
    process: u32,
}

/// Starts a server with these deals, each a JSON text.
#[pyfunction]
pub(crate) fn start_sandbox<'py>(
    py: Python<'py>,
    deals: Option<&Bound<'py, PyList>>,
    settings: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let configure = || {
        let settings = Settings(settings);
        let port: u16 = settings.number("port", Expected::Port)?.unwrap_or_default();
        let strict = settings.number("strict", Expected::Bool)?;
        let texts = deals.map(|deals| {
            let texts = deals.iter().map(|deal| Ok(deal.extract::<String>()?));
            texts.collect::<Outcome<Vec<_>>>()
        });
        let readings = settings.text("reading")?.map(|names| {
            Reading::list(&names).map_err(|error| Failure::Config(format!("reading: {error}")))
        });
        let rate_limit = settings.text("rate_limit")?.map(|limit| {
            let limit = limit.parse::<RateLimit>();
            limit.map_err(|error| Failure::Config(format!("rate_limit: {error}")))
        });
        let builder = Sandbox::builder()
            .strict(strict.unwrap_or_default())
            .listen(([127, 0, 0, 1], port));
        let mut builder = set!(builder,
            deals: texts.transpose()?,
            max_agents: settings.number("max_agents", Expected::Count)?,
            max_store_bytes: settings.number("max_store_bytes", Expected::Count)?,
            max_body_bytes: settings.number("max_body_bytes", Expected::Count)?,
            max_buffered_bytes: settings.number("max_buffered_bytes", Expected::Count)?,
            max_head_bytes: settings.number("max_head_bytes", Expected::Count)?,
            max_connections: settings.number("max_connections", Expected::Count)?,
            head_timeout: settings.duration("head_timeout")?,
            body_timeout: settings.duration("body_timeout")?,
            service_key: settings.text("service_key")?,
            rate_limit: rate_limit.transpose()?,
            admin: settings.number("admin", Expected::Bool)?,
            admin_token: settings.text("admin_token")?,
            worlds: settings.text("worlds")?,
            max_worlds: settings.number("max_worlds", Expected::Count)?,
        );
        for reading in readings.transpose()?.unwrap_or_default() {
            builder = builder.reading(reading);
        }
        let seed = settings.number("seed", Expected::Count)?;
        if let Some(count) = settings.number("generate", Expected::Count)? {
            builder = builder.generate(count, seed.unwrap_or_default());
        }
        Ok(builder)
    };
    let configured = gil::uncollected(py, || Ok(configure()))?;
    let started = configured.and_then(|builder| {
        let started = gil::release(py, || builder.start());
        started.map_err(|error| Failure::Config(error.to_string()))
    });
    entry(py, || {
        let sandbox = started?;
        Ok(NativeSandbox {
            url: sandbox.url(),
            service_key: sandbox.service_key().to_owned(),
            sandbox: Mutex::new(Some(sandbox)),
            process: process::id(),
        })
    })
}

#[pymethods]
impl NativeSandbox {
    /// The base URL for a client.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// The key that requests must carry.
    #[getter]
    fn service_key(&self) -> &str {
        &self.service_key
    }

    /// The agents created so far, in the order of creation: each as the response showed it, and what was sent.
    fn agents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let agents = self.with(|sandbox| sandbox.agents())?;
            let agents = agents.iter().map(|agent| created(py, agent));
            Ok(PyList::new(py, agents.collect::<Outcome<Vec<_>>>()?)?)
        })
    }

    /// The latest requests to /v1, in the order in which they were responded to, each by attribute; `at` in seconds
    /// since 1970.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let requests = self.with(|sandbox| sandbox.requests())?;
            Ok(all_recorded(py, &requests)?)
        })
    }

    /// Waits briefly for requests. Returns them, or a text that says which came, if there are not enough yet.
    fn wait_for<'py>(
        &self,
        py: Python<'py>,
        settings: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = || -> Outcome<_> {
            let settings = Settings(settings);
            let count = settings.number("count", Expected::Count)?;
            let wanted = set!(Wanted::requests(count.unwrap_or(1)),
                method: settings.text("method")?,
                path: settings.text("path")?,
                status: settings.number("status", Expected::Count)?,
            );
            let within = settings.delay("timeout")?.unwrap_or_default();
            let service = self.with(|sandbox| Service::clone(sandbox))?;
            Ok((service, wanted, within.min(SIGNAL_POLL_INTERVAL)))
        };
        let asked = gil::uncollected(py, || Ok(asked()))?;
        let waited = asked.and_then(|(service, wanted, within)| {
            let runtime = runtime::for_callers()?;
            Ok(gil::release(py, || {
                runtime.block_on(service.wait_for(&wanted, within))
            }))
        });
        entry(py, || match waited? {
            Ok(requests) => Ok(all_recorded(py, &requests)?.into_any()),
            Err(too_few) => Ok(PyString::new(py, &too_few.to_string()).into_any()),
        })
    }

    /// Forgets the requests so far.
    fn clear_requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || self.with(|sandbox| sandbox.clear_requests()))
    }

    /// Makes something go wrong with future requests: a fault, as JSON.
    fn fail_next<'py>(&self, py: Python<'py>, fault: &str) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.with(|sandbox| Fault::from_json(fault).and_then(|fault| sandbox.fail_next(fault)))?
                .map_err(|error| Failure::Value(error.to_string()))
        })
    }

    /// The faults that are still to happen, each as the object that the interface over HTTP shows.
    fn faults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let faults = self.with(|sandbox| sandbox.faults())?;
            Ok(json::value(py, &json_of(&faults)?)?)
        })
    }

    /// Removes every fault that has not happened as often as it should.
    fn clear_faults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || self.with(|sandbox| sandbox.clear_faults()))
    }

    /// Adds a deal, a JSON text; one with the same id is replaced.
    fn insert_deal<'py>(&self, py: Python<'py>, json: String) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.with(|sandbox| sandbox.insert_deal(json))?
                .map_err(|error| Failure::Config(error.to_string()))
        })
    }

    /// Accepts these service keys from now on, and no others.
    fn accept_keys<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let keys = keys.iter().map(|key| text("a service key", &key));
            let keys = keys.collect::<Outcome<Vec<_>>>()?;
            self.with(|sandbox| sandbox.accept_keys(keys))?
                .map_err(|error| Failure::Config(error.to_string()))
        })
    }

    /// Restores the initial state: no agents, the deals that the server started with, no faults and no requests.
    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || self.with(|sandbox| sandbox.reset()))
    }

    /// Stops the server at once.
    fn close(&self, py: Python<'_>) {
        if self.process == process::id() {
            let sandbox = self.lock().take();
            gil::release(py, || drop(sandbox));
        }
    }
}

impl NativeSandbox {
    fn lock(&self) -> MutexGuard<'_, Option<Sandbox>> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, look: impl FnOnce(&Sandbox) -> T) -> Outcome<T> {
        if self.process != process::id() {
            return Err(Failure::Runtime(
                "this sandbox runs in another process, which this one was forked from".to_owned(),
            ));
        }
        match &*self.lock() {
            Some(sandbox) => Ok(look(sandbox)),
            None => Err(Failure::Runtime("this sandbox is closed".to_owned())),
        }
    }
}

/// What the sandbox reports can always be written.
fn json_of(value: &impl Serialize) -> Outcome<Json> {
    Json::from_serialize(value).map_err(|error| Failure::Runtime(error.to_string()))
}

/// An agent as the response showed it, and what was sent.
fn created<'py>(
    py: Python<'py>,
    created: &CreatedAgent,
) -> Outcome<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let agent = json_of(&created.agent)?;
    let sent = json_of(&created.sent)?;
    let class = class(dealkit::Agent::SCHEMA);
    Ok((
        model::read(
            py,
            class,
            &Document::Text(agent.as_str()),
            Unreadable::Error,
            &|| true,
            Failure::Decode,
        )?,
        json::value(py, &sent)?,
    ))
}

fn all_recorded<'py>(
    py: Python<'py>,
    requests: &[RecordedRequest],
) -> PyResult<Bound<'py, PyList>> {
    let requests = requests.iter().map(|request| recorded(py, request));
    PyList::new(py, requests.collect::<PyResult<Vec<_>>>()?)
}

fn recorded<'py>(py: Python<'py>, request: &RecordedRequest) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("number", request.number)?;
    // Nothing was recorded before 1970.
    let at = request.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    fields.set_item("at", at.as_secs_f64())?;
    fields.set_item("method", request.method.as_str())?;
    fields.set_item("path_template", request.path_template())?;
    fields.set_item("path", &request.path)?;
    fields.set_item("query", &request.query)?;
    fields.set_item("headers", header_pairs(&request.headers))?;
    fields.set_item("body", PyBytes::new(py, &request.body))?;
    fields.set_item("body_bytes", request.body_bytes)?;
    fields.set_item("status", request.status.map(|status| status.as_u16()))?;
    fields.set_item("duration", request.duration.as_secs_f64())?;
    fields.set_item("request_id", &request.request_id)?;
    fields.set_item("fault", &request.fault)?;
    Ok(fields)
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        if self.process != process::id() {
            // Its thread is the parent's: waiting for it to end would take for ever.
            std::mem::forget(self.lock().take());
        }
    }
}
