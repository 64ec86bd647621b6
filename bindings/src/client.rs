//! The native client: the connections behind the Python classes Client and AsyncClient.

use std::fs;

use dealkit::ClientBuilder;
use pyo3::{prelude::*, types::PyDict};

use crate::{
    bulk::bulk_calls::{BulkCalls, BulkOptions},
    calls::{
        background_call::BackgroundCall,
        blocking_call::BlockingCall,
        call::{self, AnyCall, Options},
        key_source::KeySource,
        ledger_options::LedgerOptions,
        observer::CallTrace,
        runtime::{self, PerProcess, Slot},
    },
    python::{
        arguments::{NumberKind, Settings, apply_settings},
        failure::{EntryResult, Failure, Result, run_entry},
        gil,
        untrack::untrack,
    },
};

/// A client with one configuration.
///
/// Blocking calls, asyncio calls and bulk jobs share its limits: the rate limit and the retry quota. They do not share connections,
/// because a connection belongs to the runtime that made it.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct NativeClient {
    builder: ClientBuilder,
    /// The client whose connections this client uses.
    shared_client: Option<Py<NativeClient>>,
    /// True if this client also uses the rate limit and the retry quota of `shared_client`.
    shares_limits: bool,
    /// Per process, because a forked child must not use its parent's connections.
    client: PerProcess<dealkit::Client>,
    slot: Slot,
}

impl Drop for NativeClient {
    fn drop(&mut self) {
        // Only the calling threads' connections: the background thread closes its own.
        if let Some(client) = self.client.take() {
            runtime::drop_on_caller_runtime(self.slot, client);
        }
    }
}

/// Makes a client builder from the settings of a client.
fn configure_builder(settings: &Settings<'_, '_>) -> Result<ClientBuilder> {
    let client_cert = settings.paths("client_cert")?;
    let retries = settings.number("max_retries", NumberKind::Count)?;
    let mut retry = call::parse_retry_policy(settings)?;
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
            Failure::setting("ca_file", &format!("{path} cannot be read: {error}"))
        })?),
        None => None,
    };
    let mut builder = apply_settings!(ClientBuilder::default(),
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
        http1_only: settings.number("http2", NumberKind::Bool)?.map(|http2: bool| !http2),
        max_idle_connections: settings.number("max_idle_connections", NumberKind::Count)?,
        max_response_bytes: settings.number("max_response_bytes", NumberKind::Count)?,
        rate_limit: settings.number("rate_limit", NumberKind::PerSecond)?,
        allow_http: settings.number("allow_http", NumberKind::Bool)?,
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

/// Opens a client. It uses the connections and limits of the client `shared`, as far as the settings of both clients permit.
#[pyfunction]
#[pyo3(signature = (settings, shared))]
pub(crate) fn open_client<'py>(
    settings: &Bound<'py, PyDict>,
    shared: Option<Py<NativeClient>>,
) -> EntryResult<'py> {
    let py = settings.py();
    run_entry(py, || {
        let mut native = NativeClient {
            builder: configure_builder(&Settings(settings))?,
            shared_client: shared.map(|other| NativeClient::find_sharing_root(other, py, true)),
            shares_limits: false,
            client: PerProcess::new(),
            slot: Slot::NO_SERVICE,
        };
        // The client is made now, so that an invalid configuration fails here and not at the first call.
        let client = native.client()?;
        native.slot = Slot::for_origin(&client.origin());
        if let Some(other) = native.shared_client.take() {
            let other_client = other.get().client()?;
            if client.shares_limits(&other_client) {
                native.shares_limits = true;
                native.shared_client = Some(other);
            } else if client.shares_connections(&other_client) {
                native.shared_client = Some(NativeClient::find_sharing_root(other, py, false));
            }
        }
        Ok(native)
    })
}

#[pymethods]
impl NativeClient {
    /// Default timeout of a call, in seconds.
    #[getter]
    fn timeout<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || Ok(self.client()?.timeout().as_secs_f64()))
    }

    #[getter]
    fn max_retries<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || Ok(self.client()?.max_retries()))
    }

    /// Sends a call and waits briefly. Returns its result, or a `BlockingCall` if it is still in flight.
    #[pyo3(signature = (call, options, raw, trace))]
    fn send<'py>(
        &self,
        py: Python<'py>,
        call: AnyCall<'py>,
        options: Option<&Bound<'py, Options>>,
        raw: bool,
        trace: Option<&Bound<'py, CallTrace>>,
    ) -> EntryResult<'py> {
        let client = self.client();
        let call_future = gil::with_enough_stack(|| {
            client.map(|client| {
                let options = options.map(Bound::get);
                call.send(&client, options, CallTrace::observer(trace))
            })
        });
        BlockingCall::start(py, self.slot, call_future, call.body_model(), raw)
    }

    /// Sends a call on the background thread. Returns a `BackgroundCall`.
    #[pyo3(signature = (call, options, raw, trace))]
    fn start<'py>(
        &self,
        py: Python<'py>,
        call: AnyCall<'py>,
        options: Option<&Bound<'py, Options>>,
        raw: bool,
        trace: Option<&Bound<'py, CallTrace>>,
    ) -> EntryResult<'py> {
        run_entry(py, || {
            let options = options.map(Bound::get);
            let call_future = call.send(&self.client()?, options, CallTrace::observer(trace));
            let background = BackgroundCall::start(self.slot, call_future, call.body_model(), raw)?;
            Ok(untrack(Bound::new(py, background)?))
        })
    }

    /// Describes a call as a dict of OpenTelemetry attributes.
    fn describe<'py>(&self, py: Python<'py>, call: AnyCall<'py>) -> EntryResult<'py> {
        run_entry(py, || {
            let call = call.build(&self.client()?);
            let (method, template, base) = call.describe();
            let attributes = PyDict::new(py);
            attributes.set_item("http.request.method", method.as_str())?;
            attributes.set_item("url.template", template)?;
            attributes.set_item("server.address", base.host_str().unwrap_or_default())?;
            let port = base.port_or_known_default().unwrap_or_default();
            attributes.set_item("server.port", port)?;
            Ok(attributes)
        })
    }

    /// Starts a job that retrieves deals. Python code pushes their identifiers.
    #[pyo3(signature = (ordered, concurrency, options))]
    fn retrieve_many<'py>(
        &self,
        py: Python<'py>,
        ordered: bool,
        concurrency: usize,
        options: Option<&Bound<'py, Options>>,
    ) -> EntryResult<'py> {
        let options = BulkOptions {
            ordered,
            concurrency,
            call_options: options.map(Bound::get),
        };
        // A job's future is large before it is boxed.
        let calls = gil::with_enough_stack(|| {
            BulkCalls::start_retrieve_job(self.slot, &self.client()?, options)
        });
        run_entry(py, || calls)
    }

    /// Starts a job that creates agents. Python code pushes their rows.
    #[pyo3(signature = (ordered, concurrency, options, ledger))]
    fn create_many<'py>(
        &self,
        py: Python<'py>,
        ordered: bool,
        concurrency: usize,
        options: Option<&Bound<'py, Options>>,
        ledger: Option<&Bound<'py, LedgerOptions>>,
    ) -> EntryResult<'py> {
        let options = BulkOptions {
            ordered,
            concurrency,
            call_options: options.map(Bound::get),
        };
        let ledger = ledger.map(Bound::get);
        let calls = gil::with_enough_stack(|| {
            BulkCalls::start_create_job(self.slot, &self.client()?, options, ledger)
        });
        run_entry(py, || calls)
    }
}

impl NativeClient {
    /// Returns this process's client, and makes it first if necessary.
    fn client(&self) -> Result<dealkit::Client> {
        self.client.get_or_make(|| {
            let mut builder = self.builder.clone();
            if let Some(shared) = &self.shared_client {
                builder = builder.share_connections(&shared.get().client()?);
            }
            Ok(gil::with_enough_stack(|| builder.build())?)
        })
    }

    /// Returns the first client of a chain of clients that share connections and, with `with_limits`, limits.
    ///
    /// A new client refers to that first client, not to its predecessor: otherwise the chain would grow without limit.
    fn find_sharing_root(this: Py<Self>, py: Python<'_>, with_limits: bool) -> Py<Self> {
        let native = this.get();
        match &native.shared_client {
            Some(root) if native.shares_limits || !with_limits => root.clone_ref(py),
            _ => this,
        }
    }
}
