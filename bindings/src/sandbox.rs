//! The embedded server, for `dealkit.testing`.

use std::{
    process,
    sync::{Mutex, PoisonError},
};

use dealkit_server::Sandbox;
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{
    client::{BOOL, COUNT, PORT, setting, text_setting},
    convert, errors, model,
    models::{Agent, Deal},
    write,
};

/// A running server.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct NativeSandbox {
    sandbox: Mutex<Option<Sandbox>>,
    url: String,
    service_key: String,
    process: u32,
}

/// A deal's JSON: of a Deal, of JSON text, or of a mapping.
fn deal_json(name: &str, deal: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(deal) = deal.cast::<Deal>() {
        let mut json = String::new();
        write::model(deal, &mut json)?;
        return Ok(json);
    }
    if let Ok(text) = convert::document(deal) {
        return String::from_utf8(text.into_owned())
            .map_err(|_| errors::config(deal.py(), &format!("{name} is not UTF-8")));
    }
    if deal.cast::<pyo3::types::PyMapping>().is_err() {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "{name} must be a mapping, a JSON text or a Deal, not {}",
            convert::type_name(deal)
        )));
    }
    write::any(deal)
        .map(|json| json.to_string())
        .map_err(|why| errors::config(deal.py(), &format!("{name} is no JSON: {why}")))
}

#[pymethods]
impl NativeSandbox {
    #[new]
    fn new(
        py: Python<'_>,
        deals: Option<Vec<Bound<'_, PyAny>>>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let port: u16 = setting(settings, "port", PORT)?.unwrap_or_default();
        let mut builder = Sandbox::builder()
            .strict(setting(settings, "strict", BOOL)?.unwrap_or_default())
            .listen(([127, 0, 0, 1], port));
        if let Some(deals) = deals {
            let deals = deals.iter().enumerate();
            let deals = deals.map(|(at, deal)| deal_json(&format!("deals[{at}]"), deal));
            builder = builder.deals(deals.collect::<PyResult<Vec<_>>>()?);
        }
        let seed = setting(settings, "seed", COUNT)?.unwrap_or_default();
        if let Some(count) = setting(settings, "generate", COUNT)? {
            builder = builder.generate(count, seed);
        }
        if let Some(key) = text_setting(settings, "service_key")? {
            builder = builder.service_key(key);
        }
        let sandbox = py
            .detach(|| builder.start())
            .map_err(|error| errors::config(py, &error.to_string()))?;
        Ok(Self {
            url: sandbox.url(),
            service_key: sandbox.service_key().to_owned(),
            sandbox: Mutex::new(Some(sandbox)),
            process: process::id(),
        })
    }

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
    fn agents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let agents = self.with(Sandbox::agents)?;
        let agents = agents.iter().map(|agent| {
            let json = serde_json::to_vec(agent)
                .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            model::read_document::<Agent>(py, &json, errors::of_decoding)
        });
        PyList::new(py, agents.collect::<PyResult<Vec<_>>>()?)
    }

    /// Adds a deal; one with the same id is replaced.
    fn insert_deal(&self, deal: &Bound<'_, PyAny>) -> PyResult<()> {
        let json = deal_json("deal", deal)?;
        self.with(|sandbox| sandbox.insert_deal(json))?
            .map_err(|error| errors::config(deal.py(), &error.to_string()))
    }

    /// Drops every agent, and every deal but those that the server started with.
    fn reset(&self) -> PyResult<()> {
        self.with(Sandbox::reset)
    }

    /// Stops the server at once.
    fn close(&self, py: Python<'_>) {
        if self.process == process::id() {
            let sandbox = self.lock().take();
            py.detach(|| drop(sandbox));
        }
    }
}

impl NativeSandbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Sandbox>> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, look: impl FnOnce(&Sandbox) -> T) -> PyResult<T> {
        if self.process != process::id() {
            return Err(PyRuntimeError::new_err(
                "this sandbox runs in another process, which this one was forked from",
            ));
        }
        match &*self.lock() {
            Some(sandbox) => Ok(look(sandbox)),
            None => Err(PyRuntimeError::new_err("this sandbox is closed")),
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
