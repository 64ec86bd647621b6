//! The calls in flight, and the order in which their results are handed over.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt as _, stream::FuturesUnordered};

/// Things of calls, each with the index of its call.
pub(crate) type Indexed<T> = Vec<(usize, T)>;

/// The calls in flight: a stream of their results, which ends whenever nothing is in flight and resumes after the
/// next `push`.
pub(crate) struct Window<F: Future> {
    /// How many were pushed so far: the index of the next.
    pub(crate) pushed: usize,
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
    pub(crate) fn new(is_ordered: bool) -> Self {
        Self {
            pushed: 0,
            in_flight: FuturesUnordered::new(),
            order: is_ordered.then(|| Order {
                next: 0,
                early: BTreeMap::new(),
            }),
        }
    }

    pub(crate) fn push(&mut self, call: F) {
        let index = self.pushed;
        self.pushed += 1;
        self.in_flight.push(Numbered { index, call });
    }

    /// Empties the window: returns what has arrived, by index, and what is in flight.
    pub(crate) fn empty(&mut self) -> (BTreeMap<usize, F::Output>, Indexed<F>) {
        let arrived = self.order.as_mut().map(|order| {
            order.next = self.pushed;
            std::mem::take(&mut order.early)
        });
        let in_flight = std::mem::take(&mut self.in_flight).into_iter();
        let in_flight = in_flight.map(|Numbered { index, call }| (index, call));
        (arrived.unwrap_or_default(), in_flight.collect())
    }
}

impl<F: Future> Window<F> {
    /// How many calls were pushed but not yet handed over.
    pub(crate) fn len(&self) -> usize {
        let early = self.order.as_ref().map_or(0, |order| order.early.len());
        self.in_flight.len() + early
    }
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
