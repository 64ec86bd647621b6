//! What the core traces, as records of the standard logger `dealkit`, which Python code collects and logs.
//!
//! The core never traces an identifier, a header or a body, and so neither does the log.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pyo3::prelude::*;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{Interest, set_global_default},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry::{LookupSpan, Registry},
};

use crate::failure::entry;

/// Whether anybody reads the log; Python looks when a call begins.
static IS_READ: AtomicBool = AtomicBool::new(false);

/// Hands what the core traces to Python.
pub(crate) fn install() {
    // Done once: when the module is made a second time, the first bridge stands.
    let _ = set_global_default(Registry::default().with(Bridge));
}

/// How many records wait for Python code at most; older ones go first.
const MOST: usize = 10_000;

/// Records that wait for Python code to log them: level and message.
static RECORDS: Mutex<VecDeque<(u8, String)>> = Mutex::new(VecDeque::new());

/// Notes whether anybody reads the log.
#[pyfunction]
pub(crate) fn sync_log_level(is_read: bool) {
    IS_READ.store(is_read, Ordering::Relaxed);
}

/// Takes out the records that have come: level and message of each.
#[pyfunction]
pub(crate) fn take_log(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let records = std::mem::take(&mut *lock());
    entry(py, || Ok(Vec::from(records)))
}

fn lock() -> MutexGuard<'static, VecDeque<(u8, String)>> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Bridge;

/// The fields of a span or an event, as text.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            // It says the same as the two fields that follow it.
            "otel.name" | "otel.kind" => Ok(()),
            name => write!(self.rest, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Bridge {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == "dealkit" {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == "dealkit" && IS_READ.load(Ordering::Relaxed)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { mut message, rest } = fields;
        message.push_str(&rest);
        if let Some(span) = context.event_span(event)
            && let Some(fields) = span.extensions().get::<Fields>()
        {
            message.push_str(&fields.rest);
        }
        log(*event.metadata().level(), message);
    }
}

fn log(level: Level, message: String) {
    let level = match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        _ => 10,
    };
    let mut records = lock();
    if records.len() == MOST {
        records.pop_front();
    }
    records.push_back((level, message));
}
