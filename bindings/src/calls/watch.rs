//! A call that is watched: what the core traces for it, for the logger `dealkit` and for OpenTelemetry, and the
//! headers that propagate its trace.
//!
//! Traces belong to their call, so that Python code logs them where the call was made: a filter of the program may
//! look at its context. Nothing is kept for a call that nobody watches. The core never traces an identifier, a header
//! or a body.

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
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    subscriber::{Interest, set_global_default},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry::Registry,
};

use crate::{
    models::item::Reply,
    python::{
        arguments::pairs,
        failure::{Returned, entry},
    },
};

tokio::task_local! {
    /// Set while a watched call is polled.
    static WATCHED: Arc<Records>;
}

/// Hands what the core traces to the call that is being polled.
pub(crate) fn install() {
    // Done once: if the module is created a second time, the first bridge stays.
    let _ = set_global_default(Registry::default().with(Bridge));
}

/// A watch on one call.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Watch(Arc<Records>);

struct Records {
    trace: HeaderMap,
    traced: Mutex<Vec<Traced>>,
}

/// An event: its level, when it was, in nanoseconds since 1970, and its fields.
type Traced = (u8, u64, Fields);

/// The fields of an event: every field that it can have.
struct Fields(Vec<(&'static str, Option<Value>)>);

#[derive(IntoPyObject)]
enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
}

impl Records {
    fn lock(&self) -> MutexGuard<'_, Vec<Traced>> {
        self.traced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to watch a call: what is traced is kept, and the headers are sent with the call. Headers that cannot be sent are
/// left out: a call does not fail because of them.
#[pyfunction]
pub(crate) fn watch<'py>(headers: &Bound<'py, PyList>) -> Returned<'py> {
    entry(headers.py(), || {
        let mut trace = HeaderMap::new();
        for (name, value) in pairs("headers", headers)? {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                trace.append(name, value);
            }
        }
        Ok(Watch(Arc::new(Records {
            trace,
            traced: Mutex::default(),
        })))
    })
}

#[pymethods]
impl Watch {
    /// Takes out what has been traced: of each record its level, its time in nanoseconds since 1970, and its fields by name.
    fn take<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let taken = std::mem::take(&mut *self.0.lock());
        entry(py, || {
            let records = taken.into_iter().map(|(level, at, fields)| {
                let named = PyDict::new(py);
                for (name, value) in fields.0 {
                    named.set_item(name, value)?;
                }
                Ok((level, at, named))
            });
            Ok(records.collect::<PyResult<Vec<_>>>()?)
        })
    }
}

impl Watch {
    /// The watch of a call, if there is one, in a form that holds no Python objects.
    pub(crate) fn observer(watch: Option<&Bound<'_, Self>>) -> Observer {
        Observer(watch.map(|watch| Arc::clone(&watch.get().0)))
    }
}

/// What observes a call, if anything does.
pub(crate) struct Observer(Option<Arc<Records>>);

/// A single call that was sent.
pub(crate) type Sent = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A call that was sent. It takes kilobytes, so it is created where it stays: every move would copy them.
pub(crate) type SentCall = Pin<Box<dyn Future<Output = Result<RawResponse, Error>> + Send>>;

impl Observer {
    /// Makes a call, and reports on it.
    pub(crate) fn send(self, call: Call<RawResponse>) -> SentCall {
        match self.0 {
            None => Box::pin(call.send()),
            Some(records) => {
                let call = call.propagate(records.trace.clone());
                Box::pin(async move {
                    let response = WATCHED.scope(Arc::clone(&records), call.send()).await?;
                    Ok(response.in_context(move |tell| {
                        WATCHED.sync_scope(Arc::clone(&records), tell);
                    }))
                })
            }
        }
    }
}

struct Bridge;

impl Bridge {
    fn level(metadata: &Metadata<'_>) -> u8 {
        match *metadata.level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        }
    }
}

impl<S: Subscriber> Layer<S> for Bridge {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == "dealkit" && metadata.is_event() {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == "dealkit" && metadata.is_event() && WATCHED.try_with(|_| ()).is_ok()
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Nothing is kept for a call that nobody watches.
        let _ = WATCHED.try_with(|records| {
            let metadata = event.metadata();
            let names = metadata.fields().iter();
            let mut fields = Fields(names.map(|field| (field.name(), None)).collect());
            event.record(&mut fields);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let at = now.unwrap_or_default().as_nanos() as u64;
            records.lock().push((Self::level(metadata), at, fields));
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
