//! The embedded server, for `dealkit.testing`.

use std::{
    fs, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dealkit::{Json, Unreadable};
use dealkit_server::{
    AttachError, AttachedSandbox, CreatedAgent, Fault, RateLimit, Reading, RecordedRequest,
    Sandbox, Service, Tls, Wanted,
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
    PyTuple::new(py, Reading::all().iter().map(|reading| reading.name()))
}

/// A running server, or a world on one.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct NativeSandbox {
    sandbox: Mutex<Option<Kind>>,
    url: String,
    service_key: String,
    /// The file of the certificate to trust.
    ca_file: Option<String>,
    process: u32,
}

enum Kind {
    Started(Sandbox),
    Attached(Arc<AttachedSandbox>),
}

/// Starts a server with these deals, each a JSON text. With a file for the certificate to trust, it makes its own certificate.
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
            .number("port", Expected::Count)?
            .unwrap_or_default();
        let strict = settings.number("strict", Expected::Bool)?;
        let texts = deals.map(|deals| {
            let texts = deals.iter().map(|deal| Ok(deal.extract::<String>()?));
            texts.collect::<Outcome<Vec<_>>>()
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
        for reading in readings_of(&settings)? {
            builder = builder.reading(reading);
        }
        let tls = match (&settings.paths("tls")?[..], &ca_file) {
            ([certificate, key], _) => Tls::files(certificate, key),
            (_, Some(file)) => Tls::self_signed().ca_out(file),
            (_, None) => Tls::default(),
        };
        let client_ca = settings.paths("tls_client_ca")?;
        builder = builder.tls(client_ca.iter().fold(tls, Tls::client_ca));
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
            ca_file: sandbox.ca_pem().and(ca_file),
            sandbox: Mutex::new(Some(Kind::Started(sandbox))),
            process: process::id(),
        })
    })
}

/// Begins a world on a server that runs elsewhere.
#[pyfunction]
pub(crate) fn attach_sandbox<'py>(
    py: Python<'py>,
    settings: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let configure = || -> Outcome<_> {
        let settings = Settings(settings);
        let url = settings.text("url")?.unwrap_or_default();
        let ca_file = settings.text("ca_file")?;
        let ca_pem = ca_file.as_ref().map(|file| {
            let unread = |error| Failure::Config(format!("ca_file {file} cannot be read: {error}"));
            fs::read_to_string(file).map_err(unread)
        });
        let mut attach = set!(Sandbox::attach(url),
            ca_pem: ca_pem.transpose()?,
            admin_token: settings.text("admin_token")?,
            service_key: settings.text("service_key")?,
            strict: settings.number("strict", Expected::Bool)?,
        );
        for reading in readings_of(&settings)? {
            attach = attach.reading(reading);
        }
        Ok((attach, ca_file))
    };
    let configured = gil::uncollected(py, || Ok(configure()))?;
    let attached = configured.and_then(|(attach, ca_file)| {
        let attached = gil::release(py, || attach.start());
        let attached = attached.map_err(|error| Failure::Config(error.to_string()))?;
        Ok((attached, ca_file))
    });
    entry(py, || {
        let (sandbox, ca_file) = attached?;
        Ok(NativeSandbox {
            url: sandbox.url(),
            service_key: sandbox.service_key().to_owned(),
            ca_file,
            sandbox: Mutex::new(Some(Kind::Attached(Arc::new(sandbox)))),
            process: process::id(),
        })
    })
}

fn readings_of(settings: &Settings<'_, '_>) -> Outcome<Vec<Reading>> {
    let names = settings.text("reading")?;
    let readings = names.map(|names| Reading::list(&names)).transpose();
    let readings = readings.map_err(|error| Failure::Config(format!("reading: {error}")))?;
    Ok(readings.unwrap_or_default())
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

    /// The file of the certificate to trust.
    #[getter]
    fn ca_file(&self) -> Option<&str> {
        self.ca_file.as_deref()
    }

    /// The agents created so far, in the order of creation: each as the response showed it, and what was sent.
    fn agents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let agents = self.with(py, |here| Ok(here.agents()), AttachedSandbox::agents);
        entry(py, || {
            let agents = agents?;
            let agents = agents.iter().map(|agent| created(py, agent));
            Ok(PyList::new(py, agents.collect::<Outcome<Vec<_>>>()?)?)
        })
    }

    /// The latest requests to /v1, in the order in which they were responded to, each by attribute; `at` in seconds
    /// since 1970.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let requests = self.with(py, |here| Ok(here.requests()), AttachedSandbox::requests);
        entry(py, || Ok(all_recorded(py, &requests?)?))
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
            Ok((wanted, within.min(SIGNAL_POLL_INTERVAL)))
        };
        let asked = gil::uncollected(py, || Ok(asked()))?;
        let waited = asked.and_then(|(wanted, within)| {
            let runtime = runtime::for_callers()?;
            let waited = |waited| match waited {
                Err(AttachError::NotSeen(too_few)) => Ok(Err(too_few)),
                waited => waited.map(Ok),
            };
            self.with(
                py,
                |here| {
                    waited(
                        runtime
                            .block_on(here.wait_for(&wanted, within))
                            .map_err(AttachError::from),
                    )
                },
                |there| waited(there.wait_for(&wanted, within)),
            )
        });
        entry(py, || match waited? {
            Ok(requests) => Ok(all_recorded(py, &requests)?.into_any()),
            Err(too_few) => Ok(PyString::new(py, &too_few.to_string()).into_any()),
        })
    }

    /// Forgets the requests so far.
    fn clear_requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.does(py, Service::clear_requests, AttachedSandbox::clear_requests)
    }

    /// Makes something go wrong with future requests: a fault, as JSON.
    fn fail_next<'py>(&self, py: Python<'py>, fault: &str) -> PyResult<Bound<'py, PyAny>> {
        let added = self.with(
            py,
            |here| Ok(here.fail_next(Fault::from_json(fault)?)?),
            |there| there.fail_next(Fault::from_json(fault)?),
        );
        entry(py, || added)
    }

    /// The faults that are still to happen, each as the object that the interface over HTTP shows.
    fn faults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let faults = self.with(py, |here| Ok(here.faults()), AttachedSandbox::faults);
        entry(py, || Ok(json::value(py, &json_of(&faults?)?)?))
    }

    /// Removes every fault that has not happened as often as it should.
    fn clear_faults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.does(py, Service::clear_faults, AttachedSandbox::clear_faults)
    }

    /// Adds a deal, a JSON text; one with the same id is replaced.
    fn insert_deal<'py>(&self, py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
        let inserted = self.with(
            py,
            |here| Ok(here.insert_deal(json)?),
            |there| there.insert_deal(json),
        );
        entry(py, || inserted)
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
            match self.reached()? {
                Reached::Here(service) => service
                    .accept_keys(keys)
                    .map_err(|error| Failure::Config(error.to_string())),
                Reached::There(_) => Err(Failure::Config(
                    "a server finds an attached sandbox by its key, which cannot change".to_owned(),
                )),
            }
        })
    }

    /// Restores the initial state: no agents, the deals that the server started with, no faults and no requests.
    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.does(py, Service::reset, AttachedSandbox::reset)
    }

    /// Stops the server at once.
    fn close(&self, py: Python<'_>) {
        if self.process == process::id() {
            gil::release(py, || self.stop());
        }
    }
}

impl NativeSandbox {
    fn stop(&self) {
        let sandbox = self.lock().take();
        if let (Some(Kind::Started(_)), Some(file)) = (&sandbox, &self.ca_file) {
            // It was made for this server. It may be gone already.
            let _ = fs::remove_file(file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kind>> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What calls go to, which nobody has to wait for meanwhile.
    fn reached(&self) -> Outcome<Reached> {
        match &*self.lock() {
            Some(Kind::Started(_)) if self.process != process::id() => Err(Failure::Runtime(
                "this sandbox runs in another process, which this one was forked from".to_owned(),
            )),
            Some(Kind::Started(sandbox)) => Ok(Reached::Here(Service::clone(sandbox))),
            Some(Kind::Attached(sandbox)) => Ok(Reached::There(Arc::clone(sandbox))),
            None => Err(Failure::Runtime("this sandbox is closed".to_owned())),
        }
    }

    /// Does what returns nothing.
    fn does<'py>(
        &self,
        py: Python<'py>,
        here: fn(&Service),
        there: fn(&AttachedSandbox) -> Result<(), AttachError>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let done = self.with(
            py,
            |service| {
                here(service);
                Ok(())
            },
            there,
        );
        entry(py, || done)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        here: impl FnOnce(&Service) -> Result<T, AttachError> + Send,
        there: impl FnOnce(&AttachedSandbox) -> Result<T, AttachError> + Send,
    ) -> Outcome<T> {
        let reached = self.reached()?;
        let done = gil::release(py, move || match reached {
            Reached::Here(service) => here(&service),
            Reached::There(sandbox) => there(&sandbox),
        });
        done.map_err(|error| match error {
            AttachError::Fault(_) => Failure::Value(error.to_string()),
            AttachError::Deal(_) => Failure::Config(error.to_string()),
            _ => Failure::Runtime(error.to_string()),
        })
    }
}

enum Reached {
    Here(Service),
    There(Arc<AttachedSandbox>),
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
    fields.set_item("at", request.at.timestamp_micros() as f64 / 1e6)?;
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
        } else {
            self.stop();
        }
    }
}
