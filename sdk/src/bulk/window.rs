//! The calls in flight, and the order in which their results are returned.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt as _, stream::FuturesUnordered};

/// Values that belong to calls, each with the index of its call.
pub(crate) type Indexed<T> = Vec<(usize, T)>;

/// The calls in flight: a stream of their results that ends whenever no call is in flight, and resumes after the next
/// `push`.
pub(crate) struct Window<F: Future> {
    /// The number of calls pushed so far, which is the index of the next call.
    pub(crate) pushed_count: usize,
    in_flight: FuturesUnordered<IndexedCall<F>>,
    /// `None` if results are returned as they arrive.
    order: Option<Order<F::Output>>,
}

/// Returns results in the order in which their calls were pushed.
struct Order<T> {
    /// The index of the next result to return.
    next_index: usize,
    /// The results that arrived before the results of earlier calls.
    early_results: BTreeMap<usize, T>,
}

impl<F: Future + Unpin> Window<F> {
    pub(crate) fn new(is_ordered: bool) -> Self {
        Self {
            pushed_count: 0,
            in_flight: FuturesUnordered::new(),
            order: is_ordered.then(|| Order {
                next_index: 0,
                early_results: BTreeMap::new(),
            }),
        }
    }

    pub(crate) fn push(&mut self, call: F) {
        let index = self.pushed_count;
        self.pushed_count += 1;
        self.in_flight.push(IndexedCall { index, call });
    }

    /// Empties the window: returns the results that have arrived, by index, and the calls in flight.
    pub(crate) fn drain(&mut self) -> (BTreeMap<usize, F::Output>, Indexed<F>) {
        let arrived_results = self.order.as_mut().map(|order| {
            order.next_index = self.pushed_count;
            std::mem::take(&mut order.early_results)
        });
        let in_flight = std::mem::take(&mut self.in_flight).into_iter();
        let in_flight = in_flight.map(|IndexedCall { index, call }| (index, call));
        (arrived_results.unwrap_or_default(), in_flight.collect())
    }
}

impl<F: Future> Window<F> {
    /// Returns the number of calls that were pushed and whose results were not returned yet.
    pub(crate) fn len(&self) -> usize {
        let early_results = self
            .order
            .as_ref()
            .map_or(0, |order| order.early_results.len());
        self.in_flight.len() + early_results
    }
}

/// The calls are boxed, so moving the window does not move them.
impl<F: Future> Unpin for Window<F> {}

impl<F: Future + Unpin> Stream for Window<F> {
    type Item = F::Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(order) = &mut this.order
                && let Some(output) = order.early_results.remove(&order.next_index)
            {
                order.next_index += 1;
                return Poll::Ready(Some(output));
            }
            let Some((index, output)) = ready!(this.in_flight.poll_next_unpin(context)) else {
                return Poll::Ready(None);
            };
            match &mut this.order {
                None => return Poll::Ready(Some(output)),
                // The next result in order needs no entry in the map.
                Some(order) if order.next_index == index => {
                    order.next_index += 1;
                    return Poll::Ready(Some(output));
                }
                Some(order) => drop(order.early_results.insert(index, output)),
            }
        }
    }
}

struct IndexedCall<F> {
    index: usize,
    call: F,
}

impl<F: Future + Unpin> Future for IndexedCall<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let output = ready!(Pin::new(&mut self.call).poll(context));
        Poll::Ready((self.index, output))
    }
}
