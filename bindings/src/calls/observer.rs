//! Collects the trace events of observed calls, for the logger `dealkit` and for OpenTelemetry.
//!
//! A call is observed if Python code has started a [`CallTrace`] for it. The events of other calls are discarded. Events are
//! collected per call, so that Python code can log them in the thread or task that made the call: logging filters may depend on the
//! context variables there. The events of the crate `dealkit` never contain an identifier, a header or a body.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use dealkit::{Call, Error, HeaderMap, RawResponse};
use http::{HeaderName, HeaderValue};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    subscriber::{Interest, set_global_default},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry::Registry,
};

use crate::python::{
    arguments::parse_pairs,
    failure::{EntryResult, run_entry},
};

tokio::task_local! {
    /// The events of the observed call that is being polled.
    static CURRENT_EVENTS: Arc<Events>;
}

/// Installs the subscriber that collects events.
pub(crate) fn install_subscriber() {
    // An error means that the module was initialized before: the first subscriber stays.
    let _ = set_global_default(Registry::default().with(EventCollector));
}

/// The trace of one call: the events that the core has traced, and the headers that propagate the trace to the service.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct CallTrace(Arc<Events>);

struct Events {
    headers: HeaderMap,
    pending_events: Mutex<Vec<Event>>,
}

struct Event {
    level: u8,
    nanoseconds: u64,
    fields: Fields,
}

/// An event for Python.
#[pyclass(frozen, get_all, module = "dealkit._native")]
pub(crate) struct TraceEvent {
    /// The level as in Python's module `logging`.
    level: u8,
    /// Time of the event, in nanoseconds since 1970.
    timestamp: u64,
    fields: Py<PyDict>,
}

/// Values of all the fields that the event's call site declares. `None` for a field without a value.
struct Fields(Vec<(&'static str, Option<Value>)>);

#[derive(IntoPyObject)]
enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.pending_events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the trace of a call. Invalid headers are left out, so that they do not fail the call.
#[pyfunction]
pub(crate) fn start_trace<'py>(headers: &Bound<'py, PyList>) -> EntryResult<'py> {
    run_entry(headers.py(), || {
        let mut valid_headers = HeaderMap::new();
        for (name, value) in parse_pairs("headers", headers)? {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                valid_headers.append(name, value);
            }
        }
        Ok(CallTrace(Arc::new(Events {
            headers: valid_headers,
            pending_events: Mutex::default(),
        })))
    })
}

#[pymethods]
impl CallTrace {
    /// Takes out the events since the last call of this method, as a list of `TraceEvent`.
    fn take<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let events = std::mem::take(&mut *self.0.lock());
        run_entry(py, || {
            let events = events.into_iter().map(|event| {
                let fields = PyDict::new(py);
                for (name, value) in event.fields.0 {
                    fields.set_item(name, value)?;
                }
                let event = TraceEvent {
                    level: event.level,
                    timestamp: event.nanoseconds,
                    fields: fields.unbind(),
                };
                Bound::new(py, event)
            });
            Ok(events.collect::<PyResult<Vec<_>>>()?)
        })
    }
}

impl CallTrace {
    /// Returns an observer without Python objects, which can be used without the GIL.
    pub(crate) fn observer(trace: Option<&Bound<'_, Self>>) -> Observer {
        Observer(trace.map(|trace| Arc::clone(&trace.get().0)))
    }
}

/// Collects the events of one call, or discards them.
pub(crate) struct Observer(Option<Arc<Events>>);

/// The future of a request. Boxed early: it takes kilobytes, which every move would copy.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Result<RawResponse, Error>> + Send>>;

impl Observer {
    /// Sends a call and collects its events.
    pub(crate) fn send(self, call: Call<RawResponse>) -> ResponseFuture {
        match self.0 {
            None => Box::pin(call.send()),
            Some(events) => {
                let call = call.propagate(events.headers.clone());
                Box::pin(async move {
                    let response = CURRENT_EVENTS
                        .scope(Arc::clone(&events), call.send())
                        .await?;
                    Ok(response.in_context(move |work| {
                        CURRENT_EVENTS.sync_scope(Arc::clone(&events), work);
                    }))
                })
            }
        }
    }
}

/// A tracing layer that stores each event with the call that is being polled.
struct EventCollector;

impl EventCollector {
    fn python_level(metadata: &Metadata<'_>) -> u8 {
        match *metadata.level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        }
    }
}

impl<S: Subscriber> Layer<S> for EventCollector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == "dealkit" && metadata.is_event() {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == "dealkit"
            && metadata.is_event()
            && CURRENT_EVENTS.try_with(|_| ()).is_ok()
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        // An error means that the call has no observer.
        let _ = CURRENT_EVENTS.try_with(|events| {
            let metadata = event.metadata();
            let names = metadata.fields().iter();
            let mut fields = Fields(names.map(|field| (field.name(), None)).collect());
            event.record(&mut fields);
            let time_since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
            events.lock().push(Event {
                level: Self::python_level(metadata),
                nanoseconds: time_since_epoch.unwrap_or_default().as_nanos() as u64,
                fields,
            });
        });
    }
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        if let Some((_, slot)) = self.0.get_mut(field.index()) {
            *slot = Some(value);
        }
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Integer(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::Float(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
