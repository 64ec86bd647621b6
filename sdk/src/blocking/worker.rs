//! Many calls, on a background thread, as an iterator.

use std::{
    future::poll_fn,
    panic::resume_unwind,
    sync::mpsc::{Receiver, RecvError, Sender, channel},
    task::Poll,
    thread::{self, JoinHandle},
};

use futures_util::StreamExt as _;
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel,
};
use tokio_util::sync::CancellationToken;

use crate::{
    blocking::Blocking,
    bulk::many::{Bulk, InFlight, Inputs, Job, Work},
    value::opaque_debug,
};

/// Starts the thread that makes the calls.
///
/// # Panics
/// If the operating system refuses a thread. Nothing was taken or sent then.
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
        let cancel = CancelHandle {
            job: in_flight.job(),
            token: CancellationToken::new(),
        };
        let (push, pushed) = unbounded_channel();
        let (tell, news) = channel();
        let token = cancel.token.clone();
        let work = move || drop(mode.run(make(in_flight, pushed, tell, token)));
        Iter {
            inputs,
            out: 0,
            cancel,
            push: Some(push),
            news,
            thread: Some(thread::spawn(work)),
        }
    }
}

/// The results of a [`RetrieveMany`](super::RetrieveMany) or [`CreateMany`](super::CreateMany), one for each input.
///
/// A background thread drives the calls in flight, so that results arrive while the caller works on earlier ones; it ends
/// with the iterator. A [`CancelHandle`] ends it from elsewhere.
pub struct Iter<I, W: Work> {
    inputs: Inputs<I>,
    /// How many calls were pushed but not handed over.
    out: usize,
    cancel: CancelHandle,
    /// `None` only while it is dropped.
    push: Option<UnboundedSender<W::Input>>,
    news: Receiver<News<W::Item>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread tells about the calls in flight.
enum News<T> {
    Item(T),
    /// The job was given up, and nothing is known of this many calls.
    GivenUp(usize),
}

impl<I, W: Work> Iter<I, W> {
    /// See [`dealkit::BulkStream::stop`](crate::BulkStream::stop).
    pub fn stop(&mut self) {
        self.inputs.end();
    }

    /// See [`dealkit::BulkStream::cancel`](crate::BulkStream::cancel).
    pub fn cancel(mut self) -> Vec<W::Item> {
        self.cancel.cancel();
        let mut items = Vec::new();
        while self.out > 0 {
            items.extend(self.wait());
        }
        items
    }

    /// A handle that gives the job up from another thread, while this one waits for the next result.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Waits for the next result; `None` if there will be none.
    fn wait(&mut self) -> Option<W::Item> {
        match self.news.recv() {
            Ok(News::Item(item)) => {
                self.out -= 1;
                return Some(item);
            }
            Ok(News::GivenUp(calls)) => self.out -= calls,
            // The thread has panicked.
            Err(RecvError) => {
                self.inputs.end();
                self.out = 0;
                if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                    resume_unwind(panic);
                }
            }
        }
        None
    }
}

impl<I, W> Iterator for Iter<I, W>
where
    I: Iterator<Item: Into<W::Input>>,
    W: Work,
{
    type Item = W::Item;

    fn next(&mut self) -> Option<W::Item> {
        loop {
            while let Some(input) = self.inputs.next(self.out) {
                self.out += 1;
                // Only a thread that has panicked does not take it.
                let _ = self.push.as_ref().map(|push| push.send(input.into()));
            }
            if self.out == 0 {
                return None;
            }
            if let Some(item) = self.wait() {
                return Some(item);
            }
        }
    }
}

/// Cancels the calls in flight; what is known of their rows is written to a ledger after this has returned. If none is in flight,
/// the ledger is closed when this returns.
impl<I, W: Work> Drop for Iter<I, W> {
    fn drop(&mut self) {
        self.push = None;
        self.cancel.cancel();
        // A thread that has panicked must not make this panic as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

opaque_debug!(Iter<I, W: Work>);

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
#[derive(Clone, Debug)]
pub struct CancelHandle {
    job: Job,
    token: CancellationToken,
}

impl CancelHandle {
    /// Gives up the calls in flight, and takes no more inputs. Later calls, and one after the end of the job, change
    /// nothing.
    pub fn cancel(&self) {
        self.job.stop();
        self.token.cancel();
    }
}

/// Makes the calls that are pushed. Once the job is given up, tells what is known of those in flight, and of whatever is pushed
/// after that.
async fn make<W: Work>(
    mut calls: InFlight<W>,
    mut pushed: UnboundedReceiver<W::Input>,
    tell: Sender<News<W::Item>>,
    given_up: CancellationToken,
) {
    let making = poll_fn(|context| {
        loop {
            if given_up.is_cancelled() {
                return Poll::Ready(());
            }
            match pushed.poll_recv(context) {
                Poll::Ready(Some(input)) => calls.push(input),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => match calls.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => drop(tell.send(News::Item(item))),
                    // If nothing is in flight, wait for the next push.
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    });
    given_up.run_until_cancelled(making).await;
    loop {
        loop {
            match pushed.try_recv() {
                Ok(input) => calls.push(input),
                Err(TryRecvError::Empty) => break,
                // The iterator was dropped. If all of its results were taken, only the ledger is left to be closed.
                Err(TryRecvError::Disconnected) => {
                    if calls.is_empty() {
                        calls.end().await;
                    }
                    return;
                }
            }
        }
        let all = calls.len();
        let known = calls.cancel().await;
        drop(tell.send(News::GivenUp(all - known.len())));
        for item in known {
            drop(tell.send(News::Item(item)));
        }
        match pushed.recv().await {
            Some(input) => calls.push(input),
            None => return,
        }
    }
}
