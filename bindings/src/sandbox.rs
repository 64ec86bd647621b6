//! The embedded server, for `dealkit.testing`.

use std::{
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dealkit_server::Sandbox;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{
    arguments::{Expected, Settings},
    document::Document,
    failure::{Failure, Outcome, entry},
    gil, model,
    models::Agent,
};

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
        let mut builder = Sandbox::builder()
            .strict(strict.unwrap_or_default())
            .listen(([127, 0, 0, 1], port));
        if let Some(deals) = deals {
            let texts = deals.iter().map(|deal| Ok(deal.extract::<String>()?));
            builder = builder.deals(texts.collect::<Outcome<Vec<_>>>()?);
        }
        let seed = settings
            .number("seed", Expected::Count)?
            .unwrap_or_default();
        if let Some(count) = settings.number("generate", Expected::Count)? {
            builder = builder.generate(count, seed);
        }
        if let Some(agents) = settings.number("max_agents", Expected::Count)? {
            builder = builder.max_agents(agents);
        }
        if let Some(bytes) = settings.number("max_store_bytes", Expected::Count)? {
            builder = builder.max_store_bytes(bytes);
        }
        if let Some(key) = settings.text("service_key")? {
            builder = builder.service_key(key);
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

    /// The agents created so far, in the order of creation.
    fn agents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let agents = self.with(Sandbox::agents)?;
            let agents = agents.iter().map(|agent| {
                let json = serde_json::to_string(&agent.agent)
                    .map_err(|error| Failure::Runtime(error.to_string()))?;
                model::read_document::<Agent>(py, &Document::Text(&json), Failure::Decode)
            });
            Ok(PyList::new(py, agents.collect::<Outcome<Vec<_>>>()?)?)
        })
    }

    /// Adds a deal, a JSON text; one with the same id is replaced.
    fn insert_deal<'py>(&self, py: Python<'py>, json: String) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.with(|sandbox| sandbox.insert_deal(json))?
                .map_err(|error| Failure::Config(error.to_string()))
        })
    }

    /// Drops every agent, and every deal but those that the server started with.
    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || self.with(Sandbox::reset))
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

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        if self.process != process::id() {
            // Its thread is the parent's: waiting for it to end would take forever.
            std::mem::forget(self.lock().take());
        }
    }
}
