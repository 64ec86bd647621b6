//! Service keys from a Python callable.
//!
//! The background thread has Python code begin to ask, on a thread or an event loop, and that code answers later: no native
//! frame is below the callable, however long it takes.

use std::sync::{Arc, Mutex, PoisonError};

use dealkit::ServiceKey;
use pyo3::prelude::*;
use tokio::sync::oneshot;

use crate::{
    calls::runtime,
    python::{
        arguments::duration,
        failure::{Outcome, Returned, entry},
        gil,
    },
};

/// Where the key of a client comes from, if that is a Python callable.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct KeySource(pub(crate) dealkit::KeySource);

/// An answer with a key, or with the name of an error's class.
type Answer = Result<ServiceKey, String>;

/// Takes the answer of the callable.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct KeyAnswer(Mutex<Option<oneshot::Sender<Answer>>>);

/// The source that calls `ask` with a `KeyAnswer` whenever a key is needed. It must return at once.
#[pyfunction]
pub(crate) fn key_source(py: Python<'_>, ask: Py<PyAny>) -> Returned<'_> {
    let ask = Arc::new(ask);
    entry(py, || {
        Ok(KeySource(dealkit::KeySource::asking(move || {
            asked(Arc::clone(&ask))
        })))
    })
}

async fn asked(ask: Arc<Py<PyAny>>) -> Answer {
    // As Python says that no thread can be started, at the end of the interpreter.
    let not_asked = || "RuntimeError".to_owned();
    let (sender, answer) = oneshot::channel();
    let background = runtime::background().map_err(|_| not_asked())?;
    background.spawn(async move { begin(&ask, sender) });
    answer.await.unwrap_or_else(|_| Err(not_asked()))
}

#[expect(clippy::disallowed_methods, reason = "on the thread in the background")]
fn begin(ask: &Py<PyAny>, sender: oneshot::Sender<Answer>) {
    let answer = KeyAnswer(Mutex::new(Some(sender)));
    gil::attach_background(|py| drop(ask.call1(py, (answer,))));
}

impl KeyAnswer {
    fn send(&self, answer: Answer) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Whoever waited may have given up.
            let _ = sender.send(answer);
        }
    }
}

#[pymethods]
impl KeyAnswer {
    /// The key, and the seconds for which it is good, or None for as long as the service accepts it.
    fn give<'py>(&self, py: Python<'py>, key: String, expires_in: Option<f64>) -> Returned<'py> {
        entry(py, || {
            let key = ServiceKey::new(key);
            let key = match expires_in {
                Some(seconds) => key.expires_in(duration("expires_in", seconds)?),
                None => key,
            };
            self.send(Ok(key));
            Outcome::Ok(())
        })
    }

    /// There is no key, because of an error of this class.
    fn fail(&self, class_name: String) {
        self.send(Err(class_name));
    }
}
