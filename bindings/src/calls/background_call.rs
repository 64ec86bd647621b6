//! Calls of asyncio callers, which run on a background thread.

use std::sync::Arc;

use futures_util::future::{AbortHandle, abortable};
use pyo3::prelude::*;

use crate::{
    calls::{
        mailbox::Mailbox,
        observer::SentCall,
        runtime::{self, PerProcess, Slot},
        shared_state::SharedState,
    },
    models::{call_result::CallResult, response::BodyModel},
    python::failure::{EntryResult, Failure, Result, run_entry},
};

/// A call on a background thread.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct BackgroundCall {
    state: Arc<SharedState<State>>,
    /// Per process, because a forked child must not abort its parent's call.
    abort_handle: PerProcess<AbortHandle>,
    body_model: BodyModel,
    raw: bool,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    /// `None` before the end, and for a call that was aborted or has panicked.
    result: Option<CallResult>,
}

impl BackgroundCall {
    pub(crate) fn start(
        slot: Slot,
        call: SentCall,
        body_model: BodyModel,
        raw: bool,
    ) -> Result<Self> {
        let (call, abort_handle) = abortable(call);
        let background = runtime::get_background_runtime(slot)?;
        let state = Arc::new(SharedState::new(State::default(), background.clone()));
        let guard = EndGuard(Arc::clone(&state));
        background.spawn(async move {
            guard.0.lock().result = call.await.ok();
        });
        Ok(Self {
            state,
            abort_handle: PerProcess::from_value(abort_handle),
            body_model,
            raw,
        })
    }
}

/// Records the end of a call when it is dropped, even if the call was aborted or has panicked.
struct EndGuard(Arc<SharedState<State>>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.notify_all();
    }
}

#[pymethods]
impl BackgroundCall {
    /// Resolves the future when the call ends. The mailbox must belong to the future's event loop.
    fn notify(&self, mailbox: &Bound<'_, Mailbox>, future: Py<PyAny>) {
        self.state
            .resolve_unless(mailbox.get(), future, |state| !state.has_ended);
    }

    /// Takes the result of a call that has ended.
    fn take<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let result = self.state.lock().result.take();
        run_entry(py, || match result {
            Some(result) => result.into_object(py, self.body_model, self.raw),
            None => Err(Failure::Runtime(
                "the call never ended: this is a bug in dealkit, please report it".to_owned(),
            )),
        })
    }

    fn abort(&self) {
        self.abort_handle.with(AbortHandle::abort);
    }
}
