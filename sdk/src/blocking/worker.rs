//! Many calls, on a background thread, as an iterator.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    task::Poll,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, task::AtomicWaker};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout_at,
};

use crate::{
    blocking::Blocking,
    bulk::many::{Bulk, InFlight, Inputs, Job, Work},
};

impl<I, W> IntoIterator for Bulk<I, W, Blocking>
where
    I: Iterator<Item: Into<W::Input>>,
    W: Work,
{
    type Item = W::Item;
    type IntoIter = Iter<I, W>;

    fn into_iter(self) -> Iter<I, W> {
        let mode = self.mode.clone();
        let (inputs, in_flight) = self.into_queue();
        Iter {
            inputs,
            worker: Worker::new(in_flight, mode),
        }
    }
}

/// The results of a [`RetrieveMany`](super::RetrieveMany) or [`CreateMany`](super::CreateMany), one for each input.
///
/// A background thread drives the calls in flight, so that results arrive while the caller works on earlier ones; it ends
/// with the iterator. A [`CancelHandle`] ends it from elsewhere.
pub struct Iter<I, W: Work> {
    inputs: Inputs<I>,
    worker: Worker<W>,
}

impl<I, W: Work> Iter<I, W> {
    /// See [`dealkit::BulkStream::stop`](crate::BulkStream::stop).
    pub fn stop(&mut self) {
        self.inputs.end();
    }

    /// See [`dealkit::BulkStream::cancel`](crate::BulkStream::cancel).
    pub fn cancel(mut self) -> Vec<W::Item> {
        self.worker.cancel.cancel();
        std::iter::from_fn(|| match self.worker.next(None) {
            News::Item(item) => Some(item),
            _ => None,
        })
        .collect()
    }

    /// A handle that gives the job up from another thread, while this one waits for the next result.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.worker.cancel.clone()
    }
}

impl<I, W> Iter<I, W>
where
    I: Iterator<Item: Into<W::Input>>,
    W: Work,
{
    /// The next result, as [`next`](Iterator::next) returns it, or `Pending` if none comes within this time. Nothing is
    /// lost: the calls stay in flight, and the iterator can be read again.
    ///
    /// What the iterator of the inputs takes for itself is not bounded.
    ///
    /// ```no_run
    /// # fn example(client: dealkit::blocking::Client, rows: Vec<dealkit::CreateAgent>, asked_to_end: fn() -> bool) {
    /// use std::{task::Poll, time::Duration};
    ///
    /// let mut creations = client.agents().create_many(rows).into_iter();
    /// loop {
    ///     match creations.next_timeout(Duration::from_millis(200)) {
    ///         Poll::Ready(Some(creation)) => println!("row {}: {}", creation.index, creation.outcome()),
    ///         Poll::Ready(None) => break,
    ///         Poll::Pending if asked_to_end() => creations.stop(),
    ///         Poll::Pending => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn next_timeout(&mut self, timeout: Duration) -> Poll<Option<W::Item>> {
        // A time that the clock cannot count to never comes.
        self.next_until(Instant::now().checked_add(timeout))
    }

    fn next_until(&mut self, end: Option<Instant>) -> Poll<Option<W::Item>> {
        loop {
            while let Some(input) = self.inputs.next(self.worker.out) {
                self.worker.push(input.into());
            }
            match self.worker.next(end) {
                News::Item(item) => return Poll::Ready(Some(item)),
                News::Room => {}
                News::Late => return Poll::Pending,
                News::End => return Poll::Ready(None),
            }
        }
    }
}

impl<I, W> Iterator for Iter<I, W>
where
    I: Iterator<Item: Into<W::Input>>,
    W: Work,
{
    type Item = W::Item;

    fn next(&mut self) -> Option<W::Item> {
        match self.next_until(None) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        }
    }
}

impl<I, W: Work> fmt::Debug for Iter<I, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("in_flight", &self.worker.out)
            .finish_non_exhaustive()
    }
}

/// Gives up the job of an [`Iter`] from another thread, or from a handler of Ctrl-C that runs in one.
///
/// Whoever waits for the next result stops waiting at once. The iterator then hands over what is left, as
/// [`cancel`](Iter::cancel) returns it, and ends: every row that was taken comes back, with what is known of it.
///
/// ```no_run
/// use dealkit::{CreateAgent, blocking::Client};
///
/// # fn on_ctrl_c(handler: impl FnMut() + Send + 'static) {} // such as ctrlc::set_handler
/// # fn example(client: Client, rows: Vec<CreateAgent>) {
/// let creations = client.agents().create_many(rows).into_iter();
/// let handle = creations.cancel_handle();
/// on_ctrl_c(move || handle.cancel());
/// for creation in creations {
///     println!("row {}: {}", creation.index, creation.outcome()); // `unknown`: look before you send it again
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct CancelHandle(Arc<CancelState>);

struct CancelState {
    job: Job,
    is_cancelled: AtomicBool,
    /// Of what drives the calls in flight.
    waker: AtomicWaker,
}

impl CancelHandle {
    fn new(job: Job) -> Self {
        Self(Arc::new(CancelState {
            job,
            is_cancelled: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }))
    }

    /// Gives up the calls in flight, and takes no more inputs. Later calls, and one after the end of the job, change
    /// nothing.
    pub fn cancel(&self) {
        self.0.job.stop();
        self.0.is_cancelled.store(true, Ordering::Release);
        self.0.waker.wake();
    }

    /// Whether the job was given up.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// Runs the future until the job is given up, if it is.
    async fn bound<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.0.waker.register(context.waker());
            if self.is_cancelled() {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// Drives the calls in flight of an iterator.
struct Worker<W: Work> {
    /// How many calls were pushed but not handed over.
    out: usize,
    /// Results that have come, and are handed over first.
    left: VecDeque<W::Item>,
    cancel: CancelHandle,
    state: WorkerState<W>,
}

enum WorkerState<W: Work> {
    /// On the calling thread: as long as nothing is in flight, if the operating system refuses a thread, or once the job
    /// was given up.
    Caller(InFlight<W>, Blocking),
    /// On a thread of its own.
    Background {
        inputs: UnboundedSender<W::Input>,
        /// The results; `None` whenever there is room for more calls before the next one.
        items: Receiver<Option<W::Item>>,
        /// Returns the calls once the job was given up.
        thread: JoinHandle<Option<(InFlight<W>, Blocking)>>,
    },
    /// The thread has panicked.
    Gone,
}

/// What a worker has been waited for.
enum News<T> {
    Item(T),
    /// There is room for more calls.
    Room,
    /// The time is over.
    Late,
    /// Nothing is in flight.
    End,
}

impl<W: Work> Worker<W> {
    fn new(calls: InFlight<W>, mode: Blocking) -> Self {
        Self {
            out: 0,
            left: VecDeque::new(),
            cancel: CancelHandle::new(calls.job()),
            state: WorkerState::Caller(calls, mode),
        }
    }

    /// Adds a call to those in flight.
    fn push(&mut self, input: W::Input) {
        self.out += 1;
        if let WorkerState::Caller(..) = self.state
            && !self.cancel.is_cancelled()
            && let WorkerState::Caller(calls, mode) = self.take()
        {
            self.state = WorkerState::start(calls, mode, self.cancel.clone());
        }
        let input = match &self.state {
            WorkerState::Background { inputs, .. } => match inputs.send(input) {
                Ok(()) => return,
                Err(unsent) => {
                    self.rejoin();
                    unsent.0
                }
            },
            _ => input,
        };
        if let WorkerState::Caller(calls, _) = &mut self.state {
            calls.push(input);
        }
    }

    /// Waits for the next result of the calls in flight, if there are any, or until there is room for more calls.
    fn next(&mut self, end: Option<Instant>) -> News<W::Item> {
        loop {
            if let Some(item) = self.left.pop_front() {
                self.out -= 1;
                return News::Item(item);
            }
            if self.out == 0 {
                return News::End;
            }
            match &mut self.state {
                WorkerState::Caller(calls, mode) if self.cancel.is_cancelled() => {
                    // Runs on the runtime, because responses may have come.
                    let known = mode.run(async { calls.cancel() });
                    self.left.extend(known.unwrap_or_default());
                    self.out = self.left.len();
                }
                WorkerState::Caller(calls, mode) => {
                    let next = self.cancel.bound(calls.next());
                    let next = mode.run(async {
                        match end {
                            Some(end) => timeout_at(end.into(), next).await,
                            None => Ok(next.await),
                        }
                    });
                    match next {
                        Ok(Ok(Some(next))) => self.left.extend(next),
                        Ok(Ok(None)) => {}
                        Ok(Err(_)) => return News::Late,
                        Err(_) => return News::End,
                    }
                }
                WorkerState::Background { items, .. } => {
                    let news = match end {
                        Some(end) => {
                            items.recv_timeout(end.saturating_duration_since(Instant::now()))
                        }
                        None => items.recv().map_err(Into::into),
                    };
                    match news {
                        Ok(Some(item)) => self.left.push_back(item),
                        Ok(None) => return News::Room,
                        Err(RecvTimeoutError::Timeout) => return News::Late,
                        Err(RecvTimeoutError::Disconnected) => self.rejoin(),
                    }
                }
                WorkerState::Gone => return News::End,
            }
        }
    }

    /// Takes over from the thread, which has ended or is about to. A panic of it is propagated.
    fn rejoin(&mut self) {
        if let WorkerState::Background { items, thread, .. } = self.take() {
            match thread.join() {
                Ok(Some((calls, mode))) => self.state = WorkerState::Caller(calls, mode),
                Ok(None) => {}
                Err(panic) => std::panic::resume_unwind(panic),
            }
            self.left.extend(items.into_iter().flatten());
        }
    }

    fn take(&mut self) -> WorkerState<W> {
        std::mem::replace(&mut self.state, WorkerState::Gone)
    }
}

/// Gives up the calls in flight, and closes a ledger, before it returns.
impl<W: Work> Drop for Worker<W> {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let WorkerState::Background { thread, .. } = self.take() {
            // The thread may have panicked; dropping the worker must not panic as well.
            let _ = thread.join();
        }
    }
}

impl<W: Work> WorkerState<W> {
    fn start(calls: InFlight<W>, mode: Blocking, cancel: CancelHandle) -> Self {
        let (inputs, pushed) = unbounded_channel();
        let (results, items) = channel();
        // The thread receives the calls only once it runs, so that they are not lost if the operating
        // system refuses a thread.
        let (hand_over, handed_over) = channel::<(InFlight<W>, Blocking)>();
        let work = move || {
            let (mut calls, mode) = handed_over.recv().ok()?;
            mode.run(make(&mut calls, pushed, results, &cancel)).ok()?;
            Some((calls, mode))
        };
        match thread::Builder::new()
            .name("dealkit".to_owned())
            .spawn(work)
        {
            Ok(thread) => {
                let _ = hand_over.send((calls, mode));
                Self::Background {
                    inputs,
                    items,
                    thread,
                }
            }
            Err(_) => Self::Caller(calls, mode),
        }
    }
}

/// Makes the calls that are pushed until the job is given up, and then reports what is known of those in flight.
async fn make<W: Work>(
    calls: &mut InFlight<W>,
    mut pushed: UnboundedReceiver<W::Input>,
    results: Sender<Option<W::Item>>,
    cancel: &CancelHandle,
) {
    let job = calls.job();
    let making = poll_fn(|context| {
        loop {
            let recording = job.recording();
            match pushed.poll_recv(context) {
                Poll::Ready(Some(input)) => calls.push(input),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => match calls.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => drop(results.send(Some(item))),
                    // If nothing is in flight, wait for the next push.
                    Poll::Ready(None) | Poll::Pending => {
                        if job.recording() > recording {
                            drop(results.send(None));
                        }
                        return Poll::Pending;
                    }
                },
            }
        }
    });
    cancel.bound(making).await;
    pushed.close();
    while let Some(input) = pushed.recv().await {
        calls.push(input);
    }
    for item in calls.cancel() {
        drop(results.send(Some(item)));
    }
}
