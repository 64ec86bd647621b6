//! The embedded sandbox server of `dealkit.testing`.

use std::{
    fs, process,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dealkit_server::{Sandbox, Service, Tls, Variant};
use http::Method;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyTuple},
};

use crate::{
    calls::runtime::{self, Slot},
    python::{
        arguments::{NumberKind, Settings, apply_settings},
        failure::{Failure, Result, run_entry},
        gil,
    },
};

/// Returns the names of all variants.
pub(crate) fn variants(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, Variant::all().iter().map(|variant| variant.name()))
}

/// A running server. It stops when Python code closes or drops this object.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct NativeSandbox {
    sandbox: Mutex<Option<Sandbox>>,
    url: String,
    service_key: String,
    ca_file: Option<String>,
    /// The process in which the server runs: a forked child must not stop it.
    process_id: u32,
}

/// Starts a server with these deals, which are JSON strings. If `ca_file` is set, the server creates a self-signed certificate,
/// and writes the CA certificate to this file.
#[pyfunction]
#[pyo3(signature = (deals, settings, ca_file=None))]
pub(crate) fn start_sandbox<'py>(
    py: Python<'py>,
    deals: Option<&Bound<'py, PyList>>,
    settings: &Bound<'py, PyDict>,
    ca_file: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let configure = || {
        let settings = Settings(settings);
        let port: u16 = settings
            .number("port", NumberKind::Count)?
            .unwrap_or_default();
        let deals = deals.map(|deals| {
            let deals = deals.iter().map(|deal| Ok(deal.extract::<String>()?));
            deals.collect::<Result<Vec<_>>>()
        });
        let builder = Sandbox::builder().listen(([127, 0, 0, 1], port));
        let mut builder = apply_settings!(builder,
            strict: settings.number("strict", NumberKind::Bool)?,
            deals: deals.transpose()?,
            max_agents: settings.number("max_agents", NumberKind::Count)?,
            max_store_bytes: settings.number("max_store_bytes", NumberKind::Count)?,
            max_body_bytes: settings.number("max_body_bytes", NumberKind::Count)?,
            service_key: settings.text("service_key")?,
            rate_limit: settings.number("rate_limit", NumberKind::Count)?,
            admin_token: settings.text("admin_token")?,
            namespaces: settings.text("namespaces")?,
            max_namespaces: settings.number("max_namespaces", NumberKind::Count)?,
        );
        let variants = settings.text("variant")?;
        let variants = variants
            .map(|names| Variant::parse_list(&names))
            .transpose();
        let variants = variants.map_err(|error| Failure::Config(format!("variant: {error}")))?;
        for variant in variants.into_iter().flatten() {
            builder = builder.variant(variant);
        }
        let tls = match (&settings.paths("tls")?[..], &ca_file) {
            ([certificate, key], _) => Tls::files(certificate, key),
            (_, Some(file)) => Tls::self_signed().ca_out(file),
            (_, None) => Tls::default(),
        };
        let client_ca = settings.paths("tls_client_ca")?;
        builder = builder.tls(client_ca.iter().fold(tls, Tls::client_ca));
        for file in settings.paths("deals_file")? {
            builder = builder.deals_file(file);
        }
        let seed = settings.number("seed", NumberKind::Count)?;
        if let Some(count) = settings.number("generate", NumberKind::Count)? {
            builder = builder.generate(count, seed.unwrap_or_default());
        }
        Ok(builder)
    };
    let builder = gil::without_gc(py, || Ok(configure()))?;
    let start_result = builder.and_then(|builder| {
        let sandbox = gil::release(py, || builder.start());
        sandbox.map_err(|error| Failure::Config(error.to_string()))
    });
    run_entry(py, || {
        let sandbox = start_result?;
        Ok(NativeSandbox {
            url: sandbox.url(),
            service_key: sandbox.service_key().to_owned(),
            ca_file: sandbox.ca_pem().and(ca_file),
            sandbox: Mutex::new(Some(sandbox)),
            process_id: process::id(),
        })
    })
}

#[pymethods]
impl NativeSandbox {
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn service_key(&self) -> &str {
        &self.service_key
    }

    #[getter]
    fn ca_file(&self) -> Option<&str> {
        self.ca_file.as_deref()
    }

    /// Calls the server's control interface. Returns the status and the body of the response.
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        target: &str,
        body: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = || {
            let service = self.service()?;
            let method = Method::from_bytes(method.as_bytes())
                .map_err(|error| Failure::Value(error.to_string()))?;
            let runtime = runtime::get_caller_runtime(Slot::NO_SERVICE)?;
            Ok(gil::release(py, || {
                runtime.block_on(service.control(method, target, body.as_bytes()))
            }))
        };
        let response: Result<_> = call();
        run_entry(py, || {
            let response = response?;
            let body = PyBytes::new(py, response.body());
            Ok((response.status().as_u16(), body))
        })
    }

    fn close(&self, py: Python<'_>) {
        if self.process_id == process::id() {
            gil::release(py, || self.stop());
        }
    }
}

impl NativeSandbox {
    fn stop(&self) {
        let sandbox = self.lock().take();
        if let (Some(_), Some(file)) = (&sandbox, &self.ca_file) {
            // The file was created for this server. Ignore errors: it may already be deleted.
            let _ = fs::remove_file(file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Sandbox>> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a handle to the running server, so that calls do not hold the lock.
    fn service(&self) -> Result<Service> {
        match &*self.lock() {
            Some(_) if self.process_id != process::id() => Err(Failure::Runtime(
                "this sandbox runs in another process, from which this one was forked".to_owned(),
            )),
            Some(sandbox) => Ok(Service::clone(sandbox)),
            None => Err(Failure::Runtime("this sandbox is closed".to_owned())),
        }
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        if self.process_id != process::id() {
            // The server's thread exists only in the parent process. Joining it here would deadlock.
            std::mem::forget(self.lock().take());
        } else {
            self.stop();
        }
    }
}
