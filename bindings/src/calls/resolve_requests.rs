//! Requests to the user's `resolve=` function. If the outcome of a row is unknown, a request asks whether its agent exists.
//!
//! Native code runs no Python code. A job or a create with an idempotency key therefore delivers the requests to Python code, which
//! answers them.

use dealkit::ledger::{Resolution, UnresolvedRow};
use futures_util::future::BoxFuture;
use pyo3::{prelude::*, types::PyDateTime};
use tokio::sync::{mpsc, oneshot};

use crate::{calls::runtime::PerProcess, python::builtin};

/// The answer to a request, or an error if the `resolve=` function has failed.
type Answer = Result<Resolution, &'static str>;

/// A request to resolve one row.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct ResolveRequest {
    row: UnresolvedRow,
    /// No value once the request has been answered. Per process, because a forked child must not wake its parent's call.
    reply: PerProcess<oneshot::Sender<Answer>>,
}

pub(crate) type ResolveRequests = mpsc::UnboundedReceiver<ResolveRequest>;

/// Makes the core's `resolve` function, which sends requests, and the receiver of these requests.
pub(crate) fn resolve_channel() -> (
    impl Fn(UnresolvedRow) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ResolveRequests,
) {
    let (sender, requests) = mpsc::unbounded_channel();
    let resolve = move |row| {
        let (reply, answer) = oneshot::channel();
        let reply = PerProcess::from_value(reply);
        // If the receiver has been dropped, this drops the request, and `answer` below is an error.
        drop(sender.send(ResolveRequest { row, reply }));
        let answer = async { answer.await.unwrap_or(Err("the row was not looked up")) };
        Box::pin(answer) as _
    };
    (resolve, requests)
}

/// Waits for the next request. Returns `None` if there are no requests, or no more. Loses no request if the returned future is
/// dropped.
pub(crate) async fn next_request(requests: &mut Option<ResolveRequests>) -> Option<ResolveRequest> {
    match requests {
        Some(requests) => requests.recv().await,
        None => None,
    }
}

impl ResolveRequest {
    /// Answers the request, unless it has already been answered.
    fn answer(&self, answer: Answer) {
        if let Some(reply) = self.reply.take() {
            // An error means that the row has been cancelled.
            let _ = reply.send(answer);
        }
    }
}

#[pymethods]
impl ResolveRequest {
    #[getter]
    fn key(&self) -> &str {
        &self.row.key
    }

    #[getter]
    fn sent_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        builtin::make_datetime(py, self.row.sent_at)
    }

    #[getter]
    fn status_code(&self) -> Option<u16> {
        self.row.status.map(u16::from)
    }

    #[getter]
    fn request_id(&self) -> Option<&str> {
        self.row.request_id.as_deref()
    }

    #[getter]
    fn label(&self) -> Option<&str> {
        self.row.label.as_deref()
    }

    /// Answers that the agent exists.
    fn answer_agent(&self, agent_id: String) {
        self.answer(Ok(Resolution::Agent(agent_id.into())));
    }

    /// Answers that there is certainly no agent.
    fn answer_no_agent(&self) {
        self.answer(Ok(Resolution::NoAgent));
    }

    /// Answers that it remains unknown whether there is an agent.
    fn answer_unknown(&self) {
        self.answer(Ok(Resolution::Unknown));
    }

    /// Reports that the `resolve=` function has failed.
    fn fail(&self) {
        self.answer(Err("the function has failed"));
    }
}
