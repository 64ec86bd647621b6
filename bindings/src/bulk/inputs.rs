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

/// An input of a job, of `retrieve_many` or `create_many`.
pub(crate) enum Input {
    Id(String),
    Row(CreateRow),
}

pub(crate) type Inputs = VecDeque<(Input, Observer)>;

/// Rows; or identifiers, the first of which has this index. If one of them has the wrong type, there are none.
pub(super) fn read(given: &Bound<'_, PyList>, index: usize, are_rows: bool) -> Outcome<Inputs> {
    let inputs = given.iter().zip(index..).map(|(pair, index)| {
        let (input, watch) = pair.extract::<(Bound<'_, PyAny>, Option<Bound<'_, Watch>>)>()?;
        let input = if are_rows {
            let (call, key) = input.extract::<(Option<Bound<'_, Call>>, Option<String>)>()?;
            let row = row(call.as_ref().map(|call| call.get()));
            Input::Row(match key {
                Some(key) => row.key(key).into(),
                None => row,
            })
        } else {
            Input::Id(text(format_args!("ids[{index}]"), &input)?)
        };
        Ok((input, Watch::observer(watch.as_ref())))
    });
    inputs.collect()
}

/// A row, from the call that creates its agent; without a call, a row that is not sent, whose error Python code has.
fn row(call: Option<&Call>) -> CreateRow {
    CreateRow::from_text(match call.and_then(|call| call.body.clone()) {
        Some(body) => Ok(body),
        None => {
            let violation = Violation::new("", ViolationCode::WrongType, "must be an agent");
            let refused = ValidationError::check(vec![violation]);
            refused.map(|()| Bytes::new()).map_err(Error::from)
        }
    })
}
