//! What calls are made from: inputs that were pushed but not sent yet, each with whoever watches its call.

use std::{collections::VecDeque, vec};

use bytes::Bytes;
use dealkit::{CreateRow, Error, ValidationError, Violation, ViolationCode};
use pyo3::{prelude::*, types::PyList};

use crate::{
    calls::{
        call::Call,
        watch::{Observer, Watch},
    },
    python::{arguments::text, failure::Outcome},
};

/// The inputs of a job.
pub(crate) enum Inputs {
    Ids(UnsentIds),
    Rows(VecDeque<(CreateRow, Observer)>),
}

/// Inputs of one type.
pub(crate) trait Next<T> {
    /// Takes out the next one.
    fn next(&mut self) -> Option<(T, Observer)>;
}

impl Next<String> for Inputs {
    fn next(&mut self) -> Option<(String, Observer)> {
        match self {
            Inputs::Ids(ids) => ids.next(),
            Inputs::Rows(_) => None,
        }
    }
}

impl Next<CreateRow> for Inputs {
    fn next(&mut self) -> Option<(CreateRow, Observer)> {
        match self {
            Inputs::Rows(rows) => rows.pop_front(),
            Inputs::Ids(_) => None,
        }
    }
}

impl Inputs {
    /// Identifiers, the first of which has this index; or rows. If one of them has the wrong type, there are none.
    pub(crate) fn read(given: &Bound<'_, PyList>, index: usize, are_rows: bool) -> Outcome<Self> {
        if are_rows {
            let rows = given.iter().map(|pair| {
                let ((call, key), watch) = pair.extract::<(
                    (Option<Bound<'_, Call>>, Option<String>),
                    Option<Bound<'_, Watch>>,
                )>()?;
                let mut row = row(call.as_ref().map(|call| call.get()));
                if let Some(key) = key {
                    row = row.key(key);
                }
                Ok((row, Watch::observer(watch.as_ref())))
            });
            return Ok(Inputs::Rows(rows.collect::<Outcome<_>>()?));
        }
        let ids = given.iter().zip(index..).map(|(pair, index)| {
            let (id, watch) = pair.extract::<(Bound<'_, PyAny>, Option<Bound<'_, Watch>>)>()?;
            let id = text(format_args!("ids[{index}]"), &id)?;
            Ok((id, Watch::observer(watch.as_ref())))
        });
        Ok(Inputs::Ids(UnsentIds::new(ids.collect::<Outcome<_>>()?)))
    }

    /// Adds more inputs of the same type.
    pub(crate) fn append(&mut self, more: Self) {
        match (self, more) {
            (Inputs::Ids(ids), Inputs::Ids(mut more)) => {
                ids.count += more.count;
                ids.lots.append(&mut more.lots);
            }
            (Inputs::Rows(rows), Inputs::Rows(mut more)) => rows.append(&mut more),
            _ => {}
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Inputs::Ids(ids) => ids.count,
            Inputs::Rows(rows) => rows.len(),
        }
    }
}

/// A row, from the call that creates its agent; without a call, a row that is not sent, whose error Python code has.
fn row(call: Option<&Call>) -> CreateRow {
    CreateRow::written(match call.and_then(|call| call.body.clone()) {
        Some(body) => Ok(body),
        None => {
            let violation = Violation::new("", ViolationCode::WrongType, "must be an agent");
            let refused = ValidationError::check(vec![violation]);
            refused.map(|()| Bytes::new()).map_err(Error::from)
        }
    })
}

/// Identifiers in as little memory as possible: there may be millions.
#[derive(Default)]
pub(crate) struct UnsentIds {
    lots: VecDeque<Lot>,
    count: usize,
}

/// Identifiers that were pushed at once: one text, and where in it each of those that are left ends.
struct Lot {
    text: String,
    begin: usize,
    left: vec::IntoIter<(usize, Observer)>,
}

impl UnsentIds {
    fn new(ids: Vec<(String, Observer)>) -> Self {
        let count = ids.len();
        let mut text = String::with_capacity(ids.iter().map(|(id, _)| id.len()).sum());
        let left = ids.into_iter().map(|(id, observer)| {
            text.push_str(&id);
            (text.len(), observer)
        });
        let left = left.collect::<Vec<_>>().into_iter();
        let begin = 0;
        Self {
            lots: VecDeque::from([Lot { text, begin, left }]),
            count,
        }
    }

    fn next(&mut self) -> Option<(String, Observer)> {
        loop {
            let lot = self.lots.front_mut()?;
            let Some((end, observer)) = lot.left.next() else {
                self.lots.pop_front();
                continue;
            };
            let id = lot.text.get(lot.begin..end).unwrap_or_default();
            lot.begin = end;
            self.count -= 1;
            return Some((id.to_owned(), observer));
        }
    }
}
