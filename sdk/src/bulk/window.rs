//! Many calls, a bounded number at a time: those in flight, their order, and the source of further ones.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    num::NonZeroUsize,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt as _, stream::FuturesUnordered};

use crate::{calls::service::CallOptions, http::retry::attempts::RetryPolicy};

/// How the calls are made: the options that the builders of many calls have in common.
pub(crate) struct Plan {
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) as_completed: bool,
    pub(crate) options: CallOptions,
}

impl Plan {
    /// This many calls at a time, with results in the order in which they were asked for.
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

/// The items yet to be asked for, taken only while there is room for them.
pub(crate) struct Source<I> {
    /// `None` once the iterator has ended, so that it is not called again.
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

    /// The next item, if there is one and there is room for it beside those in flight.
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
    /// Yields no more items from now on.
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

/// The calls in flight: a stream of their results, which ends whenever nothing is in flight and resumes after the
/// next `push`.
pub(crate) struct Window<F: Future> {
    pushed: usize,
    in_flight: FuturesUnordered<Numbered<F>>,
    /// `None` if results are handed over as they arrive.
    order: Option<Order<F::Output>>,
}

/// Keeps results in the order in which the calls were pushed.
struct Order<T> {
    /// The index of the next result to be handed over.
    next: usize,
    /// The results that have arrived before their turn.
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

    /// The index of the next call to be pushed.
    pub(crate) fn next_index(&self) -> usize {
        self.pushed
    }

    pub(crate) fn push(&mut self, call: F) {
        let index = self.pushed;
        self.pushed += 1;
        self.in_flight.push(Numbered { index, call });
    }

    /// Empties the window: returns what has arrived and what is in flight, in the order in which they were pushed.
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
    /// How many calls were pushed but not yet handed over.
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

/// Everything that is pinned in it has a box of its own.
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

/// A call and its index among those pushed.
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
