//! Calls that are waited for, on the calling thread.

use std::{
    future::Future,
    pin::Pin,
    process,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pyo3::prelude::*;
use tokio::{runtime::Handle, task::yield_now, time::timeout};

use crate::{
    failure::{Failure, Outcome, entry},
    gil,
    response::{self, CallResult, ReadAs},
    runtime,
};

/// How long a waiting call leaves signals such as Ctrl-C unattended at most: Python looks for them
/// whenever its code runs.
pub(crate) const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

type InFlight = Pin<Box<dyn Future<Output = CallResult> + Send>>;

/// A call in flight, which moves on while it is waited for.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Waiting {
    /// `None` once it has ended, and while a thread waits for it.
    call: Mutex<Option<InFlight>>,
    read_as: ReadAs,
    raw: bool,
    process: u32,
}

impl Waiting {
    pub(crate) fn new(
        sent: impl Future<Output = Result<dealkit::RawResponse, dealkit::Error>> + Send + 'static,
        read_as: ReadAs,
        raw: bool,
    ) -> Outcome<Self> {
        if Handle::try_current().is_ok() {
            return Err(Failure::Config(
                "a call that waits was made on a thread of a Rust async runtime, which it would stall"
                    .to_owned(),
            ));
        }
        let call = async move {
            // Between calls nobody looks after the idle connections. Letting the runtime look once
            // finds those that the service has closed, before a request goes out on one.
            yield_now().await;
            sent.await.map_err(Arc::new)
        };
        Ok(Self {
            call: Mutex::new(Some(Box::pin(call))),
            read_as,
            raw,
            process: process::id(),
        })
    }

    fn take(&self) -> Option<InFlight> {
        self.call
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Waits a little; what the call came to, if it has ended.
    fn poll(&self, py: Python<'_>) -> Outcome<Option<CallResult>> {
        let runtime = runtime::of_callers()?;
        let mut call = match self.take() {
            Some(call) if self.process == process::id() => call,
            inherited => {
                std::mem::forget(inherited);
                return Err(Failure::Runtime(
                    "this call was made by another thread or process".to_owned(),
                ));
            }
        };
        let ended = gil::release(py, || {
            runtime.block_on(async { timeout(SIGNAL_POLL_INTERVAL, call.as_mut()).await })
        });
        match ended {
            Ok(result) => Ok(Some(result)),
            Err(_) => {
                *self.call.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
                Ok(None)
            }
        }
    }

    /// Waits a little. Returns what the call came to, or this while it is still in flight.
    pub(crate) fn wait<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let waiting = this.get();
        let polled = waiting.poll(py);
        entry(py, || match polled? {
            Some(result) => response::result(py, &result, waiting.read_as, waiting.raw),
            None => Ok(this.clone().into_any()),
        })
    }
}

#[pymethods]
impl Waiting {
    /// Waits a little. Returns what the call came to, or this object while it is still in flight.
    #[pyo3(name = "wait")]
    fn py_wait<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::wait(this)
    }

    /// Aborts the call, if it is still in flight, and closes its connection.
    fn abort(&self) {
        if self.process == process::id()
            && let Some(call) = self.take()
        {
            runtime::drop_of_callers(call);
        }
    }
}
