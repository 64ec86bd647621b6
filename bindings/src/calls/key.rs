//! Service keys from a Python callable.
//!
//! The background thread has Python code begin to ask, on a thread or an event loop, and that code answers later: no native
//! frame is below the callable, however long it takes.

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
        arguments::duration,
        failure::{Outcome, Returned, entry},
        gil,
    },
};

/// Where the key of a client comes from, if that is a Python callable.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct KeySource(pub(crate) dealkit::internal::KeySource);

/// An answer with a key, or with the name of an error's class.
type Answer = Result<ServiceKey, String>;

/// The time for which calls join an asking in flight before another one begins, and the most askings in flight: each takes a
/// thread for as long as the callable hangs.
const JOINED_FOR: Duration = Duration::from_secs(60);
const MOST_ASKINGS: usize = 4;

/// A callable that provides keys, and the askings in flight. The child of a fork has none.
struct Provider {
    ask: Py<PyAny>,
    askings: PerProcess<Arc<Mutex<Askings>>>,
}

#[derive(Default)]
struct Askings {
    in_flight: usize,
    /// The calls that wait for the last one, and when it began.
    waiting: Vec<oneshot::Sender<Answer>>,
    began: Option<Instant>,
}

/// Takes the answer of the callable.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct KeyAnswer {
    askings: Arc<Mutex<Askings>>,
    is_given: AtomicBool,
}

/// The source that calls `ask` with a `KeyAnswer` whenever a key is needed. It must return at once.
#[pyfunction]
pub(crate) fn key_source(py: Python<'_>, ask: Py<PyAny>) -> Returned<'_> {
    let askings = PerProcess::new();
    let provider = Arc::new(Provider { ask, askings });
    entry(py, || {
        Ok(KeySource(dealkit::internal::KeySource::from_function(
            move || asked(Arc::clone(&provider)),
        )))
    })
}

async fn asked(provider: Arc<Provider>) -> Answer {
    // As Python says that no thread can be started, at the end of the interpreter.
    let not_asked = || "RuntimeError".to_owned();
    let (sender, answer) = oneshot::channel();
    let askings = provider
        .askings
        .get_or_make(|| Ok::<_, String>(Arc::default()))?;
    let begins = {
        let mut askings = lock(&askings);
        // Calls that were cancelled meanwhile.
        askings.waiting.retain(|waiting| !waiting.is_closed());
        askings.waiting.push(sender);
        let is_recent = askings
            .began
            .is_some_and(|began| began.elapsed() < JOINED_FOR);
        let begins = askings.in_flight == 0 || !is_recent && askings.in_flight < MOST_ASKINGS;
        if begins {
            askings.in_flight += 1;
            askings.began = Some(Instant::now());
        }
        begins
    };
    if begins {
        let answer = KeyAnswer {
            askings,
            is_given: AtomicBool::new(false),
        };
        let background = runtime::background(Slot::NONE).map_err(|_| not_asked())?;
        background.spawn(async move { begin(&provider.ask, answer) });
    }
    answer.await.unwrap_or_else(|_| Err(not_asked()))
}

#[expect(clippy::disallowed_methods, reason = "on a background thread")]
fn begin(ask: &Py<PyAny>, answer: KeyAnswer) {
    gil::attach_background(|py| drop(ask.call1(py, (answer,))));
}

impl KeyAnswer {
    /// Ends the asking, with the answer for all calls that wait.
    fn send(&self, answer: &Answer) {
        if self.is_given.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut askings = lock(&self.askings);
        askings.in_flight -= 1;
        askings.began = None;
        for waiting in askings.waiting.drain(..) {
            // The caller may have cancelled its call.
            let _ = waiting.send(answer.clone());
        }
    }
}

impl Drop for KeyAnswer {
    /// Without an answer, no thread could be started.
    fn drop(&mut self) {
        self.send(&Err("RuntimeError".to_owned()));
    }
}

fn lock(askings: &Mutex<Askings>) -> MutexGuard<'_, Askings> {
    askings.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.send(&Ok(key));
            Outcome::Ok(())
        })
    }

    /// There is no key, because of an error of this class.
    fn fail(&self, class_name: String) {
        self.send(&Err(class_name));
    }
}
