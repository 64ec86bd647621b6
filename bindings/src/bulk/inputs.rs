//! What calls are made from: inputs that were pushed but not sent yet, each with whoever watches its call.

use std::collections::VecDeque;

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
    Ids(VecDeque<(String, Observer)>),
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
            Inputs::Ids(ids) => ids.pop_front(),
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
        Ok(Inputs::Ids(ids.collect::<Outcome<_>>()?))
    }

    /// Adds more inputs of the same type.
    pub(crate) fn append(&mut self, more: Self) {
        match (self, more) {
            (Inputs::Ids(ids), Inputs::Ids(mut more)) => ids.append(&mut more),
            (Inputs::Rows(rows), Inputs::Rows(mut more)) => rows.append(&mut more),
            _ => {}
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Inputs::Ids(ids) => ids.len(),
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
