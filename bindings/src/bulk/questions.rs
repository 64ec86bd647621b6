//! Unresolved rows about which the caller is asked: native code runs no Python, so the questions come like results, and the
//! caller hands in the answers.

use std::sync::{Mutex, PoisonError};

use dealkit::ledger::{Resolution, UnresolvedRow};
use futures_util::future::BoxFuture;
use pyo3::prelude::*;
use tokio::sync::{mpsc, oneshot};

use crate::python::failure::{Failure, Returned, entry};

/// What the caller answers; an error if its function has failed.
type Answer = Result<Resolution, &'static str>;

#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Question {
    row: UnresolvedRow,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

/// Where the rows come from.
pub(super) type Asked = mpsc::UnboundedReceiver<Question>;

pub(super) fn ask() -> (
    impl Fn(UnresolvedRow) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    Asked,
) {
    let (sender, asked) = mpsc::unbounded_channel();
    let ask = move |row| {
        let (answer, answered) = oneshot::channel();
        let answer = Mutex::new(Some(answer));
        // Whatever is dropped is answered by nobody.
        drop(sender.send(Question { row, answer }));
        let answer = async { answered.await.unwrap_or(Err("nobody has answered")) };
        Box::pin(answer) as _
    };
    (ask, asked)
}

#[pymethods]
impl Question {
    /// The row's key, when it was sent in milliseconds since 1970, the status or None, and the request's id or None.
    fn row<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let row = &self.row;
        let status = row.status.map(u16::from);
        let request_id = row.request_id.as_deref();
        entry(py, || {
            Ok((&row.key, row.sent_at.timestamp_millis(), status, request_id))
        })
    }

    /// Answers it, unless that has been done: `agent` with its identifier, `no_agent`, `unknown`, or `failed`.
    #[pyo3(signature = (said, id=None))]
    fn answer<'py>(&self, py: Python<'py>, said: String, id: Option<String>) -> Returned<'py> {
        entry(py, || {
            let answer = match (said.as_str(), id) {
                ("agent", Some(id)) => Ok(Resolution::Agent(id.into())),
                ("no_agent", None) => Ok(Resolution::NoAgent),
                ("unknown", None) => Ok(Resolution::Unknown),
                ("failed", None) => Err("the function has failed"),
                _ => return Err(Failure::Value("there is no such answer".to_owned())),
            };
            let sender = self
                .answer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            // Nobody waits for it if the row was given up meanwhile.
            sender.map(|sender| sender.send(answer));
            Ok(())
        })
    }
}
