//! Calls of asyncio callers, which run on a background thread.

use std::sync::Arc;

use futures_util::future::{AbortHandle, Abortable};
use pyo3::prelude::*;

use crate::{
    calls::{
        mailbox::Mailbox,
        resolve_requests::ResolveRequest,
        runtime::{self, PerProcess, Slot},
        sent_call::SentCall,
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
    /// The request that Python code has not taken yet.
    request: Option<ResolveRequest>,
    /// True if Python code answers no further requests.
    fails_requests: bool,
}

impl BackgroundCall {
    pub(crate) fn start(
        slot: Slot,
        call: SentCall,
        body_model: BodyModel,
        raw: bool,
    ) -> Result<Self> {
        let (abort_handle, abort_registration) = AbortHandle::new_pair();
        let background = runtime::get_background_runtime(slot)?;
        let state = Arc::new(SharedState::new(State::default(), background.clone()));
        let guard = EndGuard(Arc::clone(&state));
        background.spawn(Abortable::new(run_task(call, guard), abort_registration));
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

/// Drives the call to its end.
async fn run_task(call: SentCall, guard: EndGuard) {
    // A local variable, which is dropped before the parameter `guard`: the call ends before its end is recorded.
    let mut call = call;
    loop {
        let result = call.drive().await;
        let mut state = guard.0.lock();
        if result.is_some() {
            state.result = result;
            return;
        }
        // Dropping a request fails it.
        state.request = call.take_request().filter(|_| !state.fails_requests);
        drop(state);
        guard.0.notify_all();
    }
}

#[pymethods]
impl BackgroundCall {
    /// Resolves the future when the call ends or there is a request to take. The mailbox must belong to the future's event loop.
    fn notify(&self, mailbox: &Bound<'_, Mailbox>, future: Py<PyAny>) {
        self.state.resolve_unless(mailbox.get(), future, |state| {
            !state.has_ended && state.request.is_none()
        });
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

    /// Takes the request to resolve the row of the call, if there is one.
    fn take_request<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let request = self.state.lock().request.take();
        run_entry(py, || Ok(request))
    }

    /// Fails the request that Python code has not taken, and all later requests: the outcome of the row stays unknown.
    fn fail_requests(&self) {
        // A forked child must not lock the state, which a thread of its parent may have locked.
        self.abort_handle.with(|_| {
            let mut state = self.state.lock();
            state.fails_requests = true;
            state.request = None;
        });
    }

    fn abort(&self) {
        self.abort_handle.with(|handle| handle.abort());
    }
}
