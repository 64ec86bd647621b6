//! Identifiers that were pushed but not sent yet, in as little memory as possible: there may be millions.

use std::collections::VecDeque;

use crate::calls::watch::Observer;

#[derive(Default)]
pub(crate) struct UnsentIds {
    lots: VecDeque<Lot>,
    count: usize,
}

/// Identifiers that were pushed at once: one text, and where in it each identifier ends.
struct Lot {
    text: String,
    ends: Vec<usize>,
    next: usize,
    observers: Observers,
}

/// What observes the calls of a lot: a separate watch for each, or the same one for all, if any.
pub(crate) enum Observers {
    /// Calls after the last entry have no watch.
    Each(VecDeque<Observer>),
    All(Observer),
}

impl UnsentIds {
    pub(crate) fn push(&mut self, ids: &[String], observers: Observers) {
        let mut text = String::with_capacity(ids.iter().map(String::len).sum());
        let ends = ids.iter().map(|id| {
            text.push_str(id);
            text.len()
        });
        let ends = ends.collect();
        self.count += ids.len();
        self.lots.push_back(Lot {
            text,
            ends,
            next: 0,
            observers,
        });
    }

    /// Takes out the next one, with whoever watches its call.
    pub(crate) fn next(&mut self) -> Option<(String, Observer)> {
        loop {
            let lot = self.lots.front_mut()?;
            let begin = lot.next.checked_sub(1).and_then(|last| lot.ends.get(last));
            let begin = begin.copied().unwrap_or(0);
            let Some(end) = lot.ends.get(lot.next) else {
                self.lots.pop_front();
                continue;
            };
            let id = lot.text.get(begin..*end).unwrap_or_default().to_owned();
            lot.next += 1;
            self.count -= 1;
            let observer = match &mut lot.observers {
                Observers::Each(observers) => observers.pop_front().unwrap_or_default(),
                Observers::All(observer) => observer.clone(),
            };
            return Some((id, observer));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
