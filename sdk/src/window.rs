//! Many calls, a bounded number at a time: the ones in flight, their order, and what is yet to be asked for.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    num::NonZeroUsize,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt as _, stream::FuturesUnordered};

use crate::{http::retry::RetryPolicy, service::CallOptions};

/// How the calls are made: what the builders of many calls have in common.
pub(crate) struct Plan {
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) as_completed: bool,
    pub(crate) options: CallOptions,
}

impl Plan {
    /// So many at a time, in the order in which they are asked for.
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            concurrency: at_least_one(concurrency),
            as_completed: false,
            options: CallOptions::default(),
        }
    }

    pub(crate) fn concurrency(&mut self, concurrency: usize) {
        self.concurrency = at_least_one(concurrency);
    }

    pub(crate) fn retry(&mut self, policy: RetryPolicy) {
        self.options.retry = Some(policy);
    }
}

fn at_least_one(concurrency: usize) -> NonZeroUsize {
    NonZeroUsize::new(concurrency).unwrap_or(NonZeroUsize::MIN)
}

/// What is yet to be asked for, taken only while there is room for it.
pub(crate) struct Source<I> {
    /// `None` once the iterator has ended: it is not asked again.
    items: Option<I>,
    concurrency: NonZeroUsize,
}

impl<I: Iterator> Source<I> {
    pub(crate) fn new(items: I, concurrency: NonZeroUsize) -> Self {
        Self {
            items: Some(items),
            concurrency,
        }
    }

    /// The next, if there is one, and room for it beside those in flight.
    pub(crate) fn next(&mut self, in_flight: usize) -> Option<I::Item> {
        if in_flight >= self.concurrency.get() {
            return None;
        }
        let next = self.items.as_mut()?.next();
        if next.is_none() {
            self.items = None;
        }
        next
    }
}

impl<I> Source<I> {
    /// Has no more from now on.
    pub(crate) fn end(&mut self) {
        self.items = None;
    }
}

impl<I> fmt::Debug for Source<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("has_ended", &self.items.is_none())
            .finish_non_exhaustive()
    }
}

/// The calls in flight: a stream of what they come to, which ends whenever nothing is in flight, and goes on after
/// the next `push`.
pub(crate) struct Window<F: Future> {
    pushed: usize,
    in_flight: FuturesUnordered<Numbered<F>>,
    /// `None` where they are handed over as they come.
    order: Option<Order<F::Output>>,
}

/// What keeps the order of those pushed.
struct Order<T> {
    /// The index of the next to be handed over.
    next: usize,
    /// What has come before its turn.
    early: BTreeMap<usize, T>,
}

impl<F: Future + Unpin> Window<F> {
    pub(crate) fn new(as_completed: bool) -> Self {
        Self {
            pushed: 0,
            in_flight: FuturesUnordered::new(),
            order: (!as_completed).then(|| Order {
                next: 0,
                early: BTreeMap::new(),
            }),
        }
    }

    /// The index that the next to be pushed gets.
    pub(crate) fn next_index(&self) -> usize {
        self.pushed
    }

    pub(crate) fn push(&mut self, call: F) {
        let index = self.pushed;
        self.pushed += 1;
        self.in_flight.push(Numbered { index, call });
    }

    /// Empties it: what has come, and what is in flight, in the order in which they were pushed.
    pub(crate) fn empty(&mut self) -> Vec<Taken<F>> {
        let early = self.order.as_mut().map(|order| {
            order.next = self.pushed;
            std::mem::take(&mut order.early)
        });
        let came = early.into_iter().flatten();
        let came = came.map(|(index, output)| (index, Taken::Came(output)));
        let in_flight = std::mem::take(&mut self.in_flight).into_iter();
        let in_flight = in_flight.map(|Numbered { index, call }| (index, Taken::InFlight(call)));
        let taken: BTreeMap<_, _> = came.chain(in_flight).collect();
        taken.into_values().collect()
    }
}

impl<F: Future> Window<F> {
    /// How many were pushed and not yet handed over.
    pub(crate) fn len(&self) -> usize {
        let early = self.order.as_ref().map_or(0, |order| order.early.len());
        self.in_flight.len() + early
    }
}

/// A call that was taken out of a window.
pub(crate) enum Taken<F: Future> {
    Came(F::Output),
    InFlight(F),
}

/// Nothing in it is pinned but by a box of its own.
impl<F: Future> Unpin for Window<F> {}

impl<F: Future + Unpin> Stream for Window<F> {
    type Item = F::Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(order) = &mut this.order
                && let Some(output) = order.early.remove(&order.next)
            {
                order.next += 1;
                return Poll::Ready(Some(output));
            }
            let Some((index, output)) = ready!(this.in_flight.poll_next_unpin(context)) else {
                return Poll::Ready(None);
            };
            match &mut this.order {
                None => return Poll::Ready(Some(output)),
                Some(order) => drop(order.early.insert(index, output)),
            }
        }
    }
}

/// A call and its place among those pushed.
struct Numbered<F> {
    index: usize,
    call: F,
}

impl<F: Future + Unpin> Future for Numbered<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let output = ready!(Pin::new(&mut self.call).poll(context));
        Poll::Ready((self.index, output))
    }
}
