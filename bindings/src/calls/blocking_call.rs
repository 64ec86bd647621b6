//! Calls of blocking callers, which run on the calling thread.

use pyo3::prelude::*;
use tokio::{runtime::Handle, task::yield_now, time::timeout};

use crate::{
    calls::{
        runtime::{self, PerProcess, SIGNAL_POLL_INTERVAL, Slot},
        sent_call::SentCall,
    },
    models::{call_result::CallResult, response::BodyModel},
    python::{
        failure::{EntryResult, Failure, Result, run_entry},
        gil,
    },
};

/// A call that was still in flight after the first poll interval. It makes progress only during [`wait`](Self::wait).
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct BlockingCall {
    /// `None` after the end, and while a thread drives the call.
    call: PerProcess<SentCall>,
    slot: Slot,
    body_model: BodyModel,
    raw: bool,
}

impl BlockingCall {
    /// Starts a call and drives it for one poll interval. Returns the result, or a `BlockingCall` that is still in flight.
    pub(crate) fn start<'py>(
        py: Python<'py>,
        slot: Slot,
        call: Result<SentCall>,
        body_model: BodyModel,
        raw: bool,
    ) -> EntryResult<'py> {
        let progress = call.and_then(|call| {
            if Handle::try_current().is_ok() {
                return Err(Failure::Config(
                    "a blocking call was made on a thread of a Rust async runtime, which it would stall"
                        .to_owned(),
                ));
            }
            drive(py, slot, call, true)
        });
        run_entry(py, || match progress? {
            Ok(result) => result.into_object(py, body_model, raw),
            Err(call) => {
                let call = Self {
                    call: PerProcess::from_value(call),
                    slot,
                    body_model,
                    raw,
                };
                Ok(Bound::new(py, call)?.into_any())
            }
        })
    }

    /// Drives the call for one poll interval. Returns `None` if it is still in flight.
    fn poll(&self, py: Python<'_>) -> Result<Option<CallResult>> {
        let Some(call) = self.call.take() else {
            return Err(Failure::Runtime(
                "this call was made by another thread or process".to_owned(),
            ));
        };
        match drive(py, self.slot, call, false)? {
            Ok(result) => Ok(Some(result)),
            Err(call) => {
                self.call.put(call);
                Ok(None)
            }
        }
    }
}

/// Drives a call for one poll interval or until it makes a request, without the GIL. Returns its result, or the call if it is
/// still in flight.
fn drive(
    py: Python<'_>,
    slot: Slot,
    call: SentCall,
    is_first_poll: bool,
) -> Result<Result<CallResult, SentCall>> {
    let runtime = runtime::get_caller_runtime(slot)?;
    Ok(gil::release(py, move || {
        runtime.block_on(async move {
            let mut call = call;
            if is_first_poll {
                // Between calls, the runtime does not run, and does not notice connections that the service closes. It runs
                // here once, so that the request uses no closed connection.
                yield_now().await;
            }
            let result = timeout(SIGNAL_POLL_INTERVAL, call.drive()).await;
            result.ok().flatten().ok_or(call)
        })
    }))
}

impl Drop for BlockingCall {
    /// Closes the connection if Ctrl-C has interrupted Python before its first `wait`.
    fn drop(&mut self) {
        self.abort();
    }
}

#[pymethods]
impl BlockingCall {
    /// Drives the call for one poll interval or until it makes a request. Returns its result, or this object if it is still in
    /// flight.
    fn wait<'py>(this: &Bound<'py, Self>) -> EntryResult<'py> {
        let py = this.py();
        let call = this.get();
        let poll_result = call.poll(py);
        run_entry(py, || match poll_result? {
            Some(result) => result.into_object(py, call.body_model, call.raw),
            None => Ok(this.clone().into_any()),
        })
    }

    /// Takes the request to resolve the row of the call, if there is one.
    fn take_request<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let request = self.call.with(SentCall::take_request).flatten();
        run_entry(py, || Ok(request))
    }

    /// Aborts the call if it is still in flight, and closes its connection.
    fn abort(&self) {
        if let Some(call) = self.call.take() {
            runtime::drop_on_caller_runtime(self.slot, call);
        }
    }
}
