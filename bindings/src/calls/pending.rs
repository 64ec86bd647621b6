//! Calls that are awaited: each runs on the background thread.

use std::sync::Arc;

use futures_util::future::{AbortHandle, abortable};
use pyo3::prelude::*;

use crate::{
    calls::{
        awaited::Awaited,
        mailbox::Mailbox,
        runtime::{self, PerProcess, Slot},
        watch::Sent,
    },
    models::{item::Reply, response::ReadAs},
    python::failure::{Failure, Outcome, Returned, entry},
};

#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Pending {
    ended: Arc<Awaited<Ended>>,
    /// After a fork, the child must not abort a call of the parent.
    call: PerProcess<AbortHandle>,
    read_as: ReadAs,
    raw: bool,
}

/// Whether a call has ended, and its result, unless it was aborted or panicked.
#[derive(Default)]
struct Ended {
    has_ended: bool,
    result: Option<Reply>,
}

impl Pending {
    pub(crate) fn start(slot: Slot, sent: Sent, read_as: ReadAs, raw: bool) -> Outcome<Self> {
        let (sent, call) = abortable(sent);
        let background = runtime::background(slot)?;
        let ended = Arc::new(Awaited::new(Ended::default(), background.clone()));
        let ending = Ending(Arc::clone(&ended));
        background.spawn(async move {
            ending.0.lock().result = sent.await.ok();
        });
        Ok(Self {
            ended,
            call: PerProcess::of(call),
            read_as,
            raw,
        })
    }
}

/// Tells that a call has ended, however it has.
struct Ending(Arc<Awaited<Ended>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.tell();
    }
}

#[pymethods]
impl Pending {
    /// Resolves the future of the mailbox's event loop once the call has ended.
    fn tell(&self, mailbox: &Bound<'_, Mailbox>, future: Py<PyAny>) {
        let is_in_flight = |ended: &Ended| !ended.has_ended;
        self.ended
            .resolve_while(mailbox.get(), future, is_in_flight);
    }

    fn take<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let result = self.ended.lock().result.take();
        entry(py, || match result {
            Some(reply) => reply.value(py, self.read_as, self.raw),
            None => Err(Failure::Runtime(
                "the call never ended: this is a bug in dealkit, please report it".to_owned(),
            )),
        })
    }

    fn abort(&self) {
        self.call.with(AbortHandle::abort);
    }
}
