//! Service keys that come from a callable, which the user passes as `service_key`.
//!
//! When a call needs a service key, a background thread passes a [`KeyRequest`] to the Python code of this package, which returns
//! immediately. That Python code runs the user's callable on another thread or on an event loop, and answers the request when the
//! callable has returned. No native frame is on the stack while the callable runs, however long that takes.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use dealkit::ServiceKey;
use pyo3::prelude::*;
use tokio::sync::oneshot;

use crate::{
    calls::runtime::{self, PerProcess, Slot},
    python::{
        arguments::parse_duration,
        failure::{EntryResult, Result, run_entry},
        gil,
    },
};

/// A key source that calls a Python callable.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct KeySource(pub(crate) dealkit::internal::KeySource);

/// A service key, or the class name of the exception that the callable has raised.
type KeyResult = Result<ServiceKey, String>;

/// Time after which a call makes a new key request instead of sharing the pending one, whose callable may hang.
const SHARING_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of pending key requests. Each occupies a thread while its callable hangs.
const MAX_PENDING: usize = 4;

/// A Python function that receives key requests, and its pending requests. A forked child has no pending requests.
struct Provider {
    handle_request: Py<PyAny>,
    pending: PerProcess<Arc<Mutex<PendingRequests>>>,
}

#[derive(Default)]
struct PendingRequests {
    count: usize,
    /// The calls that wait for a key.
    waiting_calls: Vec<oneshot::Sender<KeyResult>>,
    /// Start of the latest key request. `None` before the first request, and after any request has been answered.
    latest_start: Option<Instant>,
}

/// A request for a key, which Python code answers once.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct KeyRequest {
    pending: Arc<Mutex<PendingRequests>>,
    is_answered: AtomicBool,
}

/// Makes a key source. `handle_request` is called with a `KeyRequest` on a background thread, and must return immediately.
#[pyfunction]
pub(crate) fn key_source(py: Python<'_>, handle_request: Py<PyAny>) -> EntryResult<'_> {
    let provider = Arc::new(Provider {
        handle_request,
        pending: PerProcess::new(),
    });
    run_entry(py, || {
        Ok(KeySource(dealkit::internal::KeySource::from_function(
            move || request_key(Arc::clone(&provider)),
        )))
    })
}

async fn request_key(provider: Arc<Provider>) -> KeyResult {
    // The class of the exception that Python raises if no thread can be started, because the interpreter is ending.
    let start_error = || "RuntimeError".to_owned();
    let (sender, result) = oneshot::channel();
    let pending = provider
        .pending
        .get_or_make(|| Ok::<_, String>(Arc::default()))?;
    let starts_request = {
        let mut pending = lock(&pending);
        // Removes calls that have been cancelled.
        pending.waiting_calls.retain(|call| !call.is_closed());
        pending.waiting_calls.push(sender);
        let is_shareable = pending
            .latest_start
            .is_some_and(|start| start.elapsed() < SHARING_LIMIT);
        let starts_request = pending.count == 0 || !is_shareable && pending.count < MAX_PENDING;
        if starts_request {
            pending.count += 1;
            pending.latest_start = Some(Instant::now());
        }
        starts_request
    };
    if starts_request {
        let request = KeyRequest {
            pending,
            is_answered: AtomicBool::new(false),
        };
        let background =
            runtime::get_background_runtime(Slot::NO_SERVICE).map_err(|_| start_error())?;
        background.spawn(async move { call_handler(&provider.handle_request, request) });
    }
    result.await.unwrap_or_else(|_| Err(start_error()))
}

#[expect(clippy::disallowed_methods, reason = "on a background thread")]
fn call_handler(handle_request: &Py<PyAny>, request: KeyRequest) {
    gil::attach_background(|py| drop(handle_request.call1(py, (request,))));
}

impl KeyRequest {
    /// Sends the result to all waiting calls, unless the request has already been answered.
    fn answer(&self, result: &KeyResult) {
        if self.is_answered.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut pending = lock(&self.pending);
        pending.count -= 1;
        pending.latest_start = None;
        for call in pending.waiting_calls.drain(..) {
            // An error means that the call has been cancelled.
            let _ = call.send(result.clone());
        }
    }
}

impl Drop for KeyRequest {
    /// Fails a request that Python code has dropped without an answer, because Python could not start a thread.
    fn drop(&mut self) {
        self.answer(&Err("RuntimeError".to_owned()));
    }
}

fn lock(pending: &Mutex<PendingRequests>) -> MutexGuard<'_, PendingRequests> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl KeyRequest {
    /// Provides the service key. `expires_in` is the lifetime of the key in seconds. With None, the key is used until the service
    /// rejects it.
    fn provide<'py>(
        &self,
        py: Python<'py>,
        key: String,
        expires_in: Option<f64>,
    ) -> EntryResult<'py> {
        run_entry(py, || {
            let key = ServiceKey::new(key);
            let key = match expires_in {
                Some(seconds) => key.expires_in(parse_duration("expires_in", seconds)?),
                None => key,
            };
            self.answer(&Ok(key));
            Ok(())
        })
    }

    /// Reports that the callable has raised an exception of this class.
    fn fail(&self, class_name: String) {
        self.answer(&Err(class_name));
    }
}
