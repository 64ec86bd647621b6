//! Calls that are waited for, on the calling thread.

use pyo3::prelude::*;
use tokio::{runtime::Handle, task::yield_now, time::timeout};

use crate::{
    calls::{
        runtime::{self, PerProcess, SIGNAL_POLL_INTERVAL, Slot},
        watch::Sent,
    },
    models::{item::Reply, response::ReadAs},
    python::{
        failure::{Failure, Outcome, Returned, entry},
        gil,
    },
};

/// A call that has taken longer than a moment, and makes progress while it is waited for.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Waiting {
    /// `None` once it has ended, and while a thread waits for it.
    call: PerProcess<Sent>,
    slot: Slot,
    read_as: ReadAs,
    raw: bool,
}

impl Waiting {
    /// Begins a call and waits briefly. Returns its result, or a Waiting while it is still in flight.
    pub(crate) fn begin<'py>(
        py: Python<'py>,
        slot: Slot,
        call: Outcome<Sent>,
        read_as: ReadAs,
        raw: bool,
    ) -> Returned<'py> {
        let progress = call.and_then(|call| {
            if Handle::try_current().is_ok() {
                return Err(Failure::Config(
                    "a blocking call was made on a thread of a Rust async runtime, which it would stall"
                        .to_owned(),
                ));
            }
            drive(py, slot, call, true)
        });
        entry(py, || match progress? {
            Ok(reply) => reply.value(py, read_as, raw),
            Err(call) => {
                let waiting = Self {
                    call: PerProcess::of(call),
                    slot,
                    read_as,
                    raw,
                };
                Ok(Bound::new(py, waiting)?.into_any())
            }
        })
    }

    /// Waits briefly; returns the result of the call, if it has ended.
    fn poll(&self, py: Python<'_>) -> Outcome<Option<Reply>> {
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

/// Drives a call for as long as signals may be left unattended: returns its result, or the call again if it is still
/// in flight.
fn drive(py: Python<'_>, slot: Slot, call: Sent, is_first: bool) -> Outcome<Result<Reply, Sent>> {
    let runtime = runtime::for_callers(slot)?;
    Ok(gil::release(py, move || {
        runtime.block_on(async move {
            let mut call = call;
            if is_first {
                // Between calls, nobody looks after the idle connections. Letting the runtime check once finds those
                // that the service has closed, before a request goes out on one.
                yield_now().await;
            }
            match timeout(SIGNAL_POLL_INTERVAL, &mut call).await {
                Ok(reply) => Ok(reply),
                Err(_) => Err(call),
            }
        })
    }))
}

impl Drop for Waiting {
    /// Closes the connection of a call that Ctrl-C interrupted before Python began to wait for it.
    fn drop(&mut self) {
        self.abort();
    }
}

#[pymethods]
impl Waiting {
    /// Waits briefly. Returns the result of the call, or this object while it is still in flight.
    fn wait<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        let py = this.py();
        let waiting = this.get();
        let polled = waiting.poll(py);
        entry(py, || match polled? {
            Some(reply) => reply.value(py, waiting.read_as, waiting.raw),
            None => Ok(this.clone().into_any()),
        })
    }

    /// Aborts the call, if it is still in flight, and closes its connection.
    fn abort(&self) {
        if let Some(call) = self.call.take() {
            runtime::drop_for_callers(self.slot, call);
        }
    }
}
