//! Connections and the calls on them: the implementation of the Python classes Client and AsyncClient.

use std::fs;

use dealkit::ClientBuilder;
use pyo3::{prelude::*, types::PyDict};

use crate::{
    bulk::many::{LedgerOptions, Many},
    calls::{
        call::{self, Call, Options},
        key::KeySource,
        pending::Pending,
        runtime::{self, PerProcess, Slot},
        waiting::Waiting,
        watch::Watch,
    },
    python::{
        arguments::{Expected, Settings, set},
        failure::{Failure, Outcome, Returned, entry},
        gil,
        untracked::untracked,
    },
};

/// A client of one configuration.
///
/// Sync and async callers and bulk jobs share it, and so share its limits; their connections are separate, since each
/// lives on the runtime that made it.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Engine {
    builder: ClientBuilder,
    /// The engine whose connections are used, if the configuration allows it.
    shared: Option<Py<Engine>>,
    shares_limits: bool,
    client: PerProcess<dealkit::Client>,
    slot: Slot,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The background thread closes its own connections.
        if let Some(client) = self.client.take() {
            runtime::drop_for_callers(self.slot, client);
        }
    }
}

fn configured(settings: &Settings<'_, '_>) -> Outcome<ClientBuilder> {
    let client_cert = settings.paths("client_cert")?;
    let retries = settings.number("max_retries", Expected::Count)?;
    let mut retry = call::retry(settings)?;
    if let Some(retries) = retries {
        retry = Some(retry.unwrap_or_default().max_retries(retries));
    }
    let provider = settings.object::<KeySource>("service_key")?;
    let service_key = match provider {
        Some(_) => None,
        None => settings.text("service_key")?,
    };
    let certificates = match settings.path("ca_file")? {
        Some(path) => Some(fs::read(&path).map_err(|error| {
            let path = path.display();
            Failure::Setting("ca_file", format!("{path} cannot be read: {error}"))
        })?),
        None => None,
    };
    let mut builder = set!(ClientBuilder::default(),
        base_url: settings.text("base_url")?,
        key_source: provider.map(|provider| provider.get().0.clone()),
        service_key: service_key,
        service_key_file: settings.path("service_key_file")?,
        connect_timeout: settings.duration("connect")?,
        attempt_timeout: settings.duration("attempt")?,
        timeout: settings.duration("timeout")?,
        retry: retry,
        proxy: settings.text("proxy")?,
        unreadable: settings.unreadable()?,
        http1_only: settings.number("http2", Expected::Bool)?.map(|http2: bool| !http2),
        max_idle_connections: settings.number("max_idle_connections", Expected::Count)?,
        max_response_bytes: settings.number("max_response_bytes", Expected::Count)?,
        rate_limit: settings.number("rate_limit", Expected::PerSecond)?,
        allow_http: settings.number("allow_http", Expected::Bool)?,
        user_agent: settings.text("user_agent")?,
        root_certificates: certificates,
    );
    if let [certificate, key] = &*client_cert {
        builder = builder.identity_files(certificate, key);
    }
    for (name, value) in settings.pairs("headers")? {
        builder = builder.header(name, value);
    }
    Ok(builder)
}

/// Sets up an Engine. It shares the connections and limits of another one, if the settings allow it.
#[pyfunction]
#[pyo3(signature = (settings, shared))]
pub(crate) fn open_engine<'py>(
    settings: &Bound<'py, PyDict>,
    shared: Option<Py<Engine>>,
) -> Returned<'py> {
    let py = settings.py();
    entry(py, || {
        let mut engine = Engine {
            builder: configured(&Settings(settings))?,
            shared: shared.map(|other| Engine::first(other, py, true)),
            shares_limits: false,
            client: PerProcess::new(),
            slot: Slot::NONE,
        };
        // Errors in the configuration surface here rather than at the first call.
        let client = engine.made()?;
        engine.slot = Slot::of_origin(&client.origin());
        if let Some(other) = engine.shared.take() {
            let with = other.get().made()?;
            if client.shares_limits(&with) {
                engine.shares_limits = true;
                engine.shared = Some(other);
            } else if client.shares_connections(&with) {
                engine.shared = Some(Engine::first(other, py, false));
            }
        }
        Ok(engine)
    })
}

#[pymethods]
impl Engine {
    /// The time limit of a whole call, in seconds.
    #[getter]
    fn timeout<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || Ok(self.made()?.timeout().as_secs_f64()))
    }

    #[getter]
    fn max_retries<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || Ok(self.made()?.max_retries()))
    }

    /// Makes a call and waits briefly. Returns its result, or a Waiting while it is in flight.
    fn send<'py>(
        &self,
        py: Python<'py>,
        call: &Bound<'py, Call>,
        options: Option<&Bound<'py, Options>>,
        raw: bool,
        watch: Option<&Bound<'py, Watch>>,
    ) -> Returned<'py> {
        let call = call.get();
        let options = options.map(|options| options.get());
        let made = self.made();
        let sent = gil::with_stack(|| {
            made.map(|client| call.send(&client, options, Watch::observer(watch)))
        });
        Waiting::begin(py, self.slot, sent, call.read_as, raw)
    }

    fn start<'py>(
        &self,
        py: Python<'py>,
        call: &Bound<'py, Call>,
        options: Option<&Bound<'py, Options>>,
        raw: bool,
        watch: Option<&Bound<'py, Watch>>,
    ) -> Returned<'py> {
        entry(py, || {
            let call = call.get();
            let options = options.map(|options| options.get());
            let sent = call.send(&self.made()?, options, Watch::observer(watch));
            let pending = Pending::start(self.slot, sent, call.read_as, raw)?;
            Ok(untracked(Bound::new(py, pending)?))
        })
    }

    /// The description of a call: its method, template, host and port.
    fn describe<'py>(&self, py: Python<'py>, call: &Bound<'py, Call>) -> Returned<'py> {
        entry(py, || {
            let call = call.get().on(&self.made()?, None);
            let (method, template, base) = call.describe();
            let host = base.host_str().unwrap_or_default().to_owned();
            let port = base.port_or_known_default().unwrap_or_default();
            Ok((method.to_string(), template.to_owned(), host, port))
        })
    }

    /// Begins to retrieve many deals, whose identifiers are pushed as they are wanted.
    fn many<'py>(
        &self,
        py: Python<'py>,
        ordered: bool,
        concurrency: usize,
        options: Option<&Bound<'py, Options>>,
    ) -> Returned<'py> {
        entry(py, || {
            let options = options.map(|options| options.get());
            // The future of a job is large until it is on the heap.
            gil::with_stack(|| {
                Many::retrieve(self.slot, &self.made()?, ordered, concurrency, options)
            })
        })
    }

    /// Begins to create many agents, whose calls are pushed one at a time. A ledger is (its path, the name of its
    /// keys or None, what becomes of unresolved rows: `report`, `resend` or `ask`, whether rows in flight elsewhere are waited
    /// for).
    fn create_many<'py>(
        &self,
        py: Python<'py>,
        ordered: bool,
        concurrency: usize,
        options: Option<&Bound<'py, Options>>,
        ledger: Option<LedgerOptions>,
    ) -> Returned<'py> {
        let options = options.map(|options| options.get());
        let begun = gil::with_stack(|| {
            Many::create(
                self.slot,
                &self.made()?,
                ordered,
                concurrency,
                options,
                ledger.as_ref(),
            )
        });
        entry(py, || begun)
    }
}

impl Engine {
    fn made(&self) -> Outcome<dealkit::Client> {
        self.client.get_or_make(|| {
            let mut builder = self.builder.clone();
            if let Some(shared) = &self.shared {
                builder = builder.share_connections(&shared.get().made()?);
            }
            Ok(gil::with_stack(|| builder.build())?)
        })
    }

    /// The first of the engines that share the connections of this one, and its limits too, if these are wanted. A
    /// sharing engine holds on to the first one rather than to its predecessor, which would form an endless chain.
    fn first(this: Py<Self>, py: Python<'_>, with_limits: bool) -> Py<Self> {
        let engine = this.get();
        match &engine.shared {
            Some(first) if engine.shares_limits || !with_limits => first.clone_ref(py),
            _ => this,
        }
    }
}
