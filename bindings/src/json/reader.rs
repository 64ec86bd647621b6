//! The values of a JSON document as Python objects, made while the document is read.
//!
//! The core decides what a value is and what is accepted: its lexer does the reading. This code does not determine
//! what is wrong with a document: reading merely stops.

use dealkit::{
    DecodeError, Json, Role, Unreadable,
    internal::{
        document_limits::check_value_count,
        explain_error,
        lexer::{LexError, Lexer},
        scalar,
        schema::{FieldKind, Model},
    },
};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyMappingProxy, PyTuple},
};

use crate::{
    json::{extra::Extra, reused::Reused, value as json},
    python::{
        ascii, builtin,
        failure::{Failure, Outcome},
        gil,
        untracked::untracked_tuple,
    },
};

/// Reading stops here: the document is not what it should be, or Python could not make an object.
pub(crate) struct Stopped;

impl From<LexError> for Stopped {
    fn from(_: LexError) -> Self {
        Stopped
    }
}

/// What a value was read as.
pub(crate) type Read<T = Py<PyAny>> = Result<T, Stopped>;

/// Reads a model, which is an object.
pub(crate) type ReadModel = fn(&mut Reader<'_, '_>) -> Read;

/// Reads one document, value by value.
pub(crate) struct Reader<'j, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) lexer: Lexer<'j>,
    reused: Box<Reused>,
    /// Why Python could not make an object, if that happened.
    raised: Option<PyErr>,
}

/// Says while a large document is read whether to go on.
pub(crate) type GoOn<'w> = &'w dyn Fn() -> bool;

/// Reads a whole document, which should be such a model. A leading byte order mark is skipped.
///
/// Every 64 KB, other threads get their turn, and `go_on` is asked. What is wrong with a document is found out without
/// the GIL, and `fail` makes a failure of it.
pub(crate) fn whole<'py>(
    py: Python<'py>,
    document: &[u8],
    model: &'static Model,
    read: ReadModel,
    unreadable: Unreadable,
    go_on: GoOn<'_>,
    fail: impl FnOnce(DecodeError) -> Failure,
) -> Outcome<Bound<'py, PyAny>> {
    let kind = FieldKind::Model(model);
    if let Err(error) = check_value_count(document) {
        return Err(fail(error));
    }
    let go_on = || {
        gil::release(py, || ());
        go_on()
    };
    let Ok(text) = str::from_utf8(document) else {
        let error = gil::release(py, || explain_error::explain(document, kind, 0));
        return Err(fail(error));
    };
    let mut reader = Reader {
        py,
        lexer: Lexer::new(text.strip_prefix('\u{feff}').unwrap_or(text)),
        reused: Reused::take(),
        raised: None,
    };
    if unreadable == Unreadable::Skip {
        reader.lexer.set_skip_unreadable();
    }
    reader.lexer.set_should_continue(&go_on);
    let value = read(&mut reader).and_then(|value| {
        reader.lexer.expect_end()?;
        Ok(value.into_bound(py))
    });
    reader.reused.keep();
    match (value, reader.raised) {
        (_, Some(error)) => Err(error.into()),
        (Ok(value), None) => Ok(value),
        (Err(Stopped), None) if reader.lexer.is_cancelled() => {
            Err(fail(explain_error::cancelled(document)))
        }
        (Err(Stopped), None) => {
            let stopped_at = reader.lexer.position();
            let error = gil::release(py, || explain_error::explain(document, kind, stopped_at));
            Err(fail(error))
        }
    }
}

impl<'py> Reader<'_, 'py> {
    /// What Python has made.
    #[inline]
    pub(crate) fn made<T>(&mut self, made: PyResult<T>) -> Read<T> {
        made.map_err(|error| {
            self.raised = Some(error);
            Stopped
        })
    }

    /// Skips the value of an optional field that could not be read, as [`Lexer::skip_unreadable_value`] does.
    #[cold]
    pub(crate) fn skipped(&mut self, start: usize, field: &str) -> Read<Option<Json>> {
        if self.raised.is_some() {
            return Err(Stopped);
        }
        Ok(self
            .lexer
            .skip_unreadable_value(start, field)?
            .map(Json::from_raw))
    }

    #[inline(never)]
    pub(crate) fn text(&mut self) -> Read {
        let text = self.lexer.read_string()?;
        Ok(ascii::string(self.py, &text).into_any().unbind())
    }

    /// A string that comes again and again.
    #[inline(never)]
    pub(crate) fn word(&mut self) -> Read {
        let text = self.lexer.read_string()?;
        Ok(self.reused.words.get(self.py, &text).into_any())
    }

    /// A role: a member of the enum, or a string if it is undocumented.
    #[inline(never)]
    pub(crate) fn role(&mut self) -> Read {
        let text = self.lexer.read_string()?;
        match text.parse::<Role>() {
            Ok(role) => {
                let role = builtin::role(self.py, role);
                Ok(self.made(role)?.unbind())
            }
            Err(_) => Ok(ascii::string(self.py, &text).into_any().unbind()),
        }
    }

    #[inline(never)]
    pub(crate) fn boolean(&mut self) -> Read {
        let is_true = self.lexer.read_boolean()?;
        Ok(PyBool::new(self.py, is_true).to_owned().into_any().unbind())
    }

    #[inline(never)]
    pub(crate) fn integer(&mut self) -> Read {
        let integer = self.lexer.read_integer()?;
        Ok(builtin::small_int(self.py, integer).into_any().unbind())
    }

    #[inline(never)]
    pub(crate) fn decimal(&mut self) -> Read {
        let number = self.lexer.read_number()?;
        let decimal = match number.digits {
            Some(digits) => self.reused.decimals.get(self.py, digits, number.text),
            None => {
                let decimal = scalar::parse_decimal(number.text).ok_or(Stopped)?;
                self.reused.decimals.make(self.py, &decimal.to_string())
            }
        };
        self.made(decimal)
    }

    #[inline(never)]
    pub(crate) fn date(&mut self) -> Read {
        let date = self.lexer.read_date()?;
        let date = builtin::date(self.py, date);
        Ok(self.made(date)?.into_any().unbind())
    }

    /// A moment, the value of the field at a position: the part that a datetime cannot hold is kept in `extra`.
    #[inline(never)]
    pub(crate) fn timestamp(&mut self, position: usize, extra: &mut Option<Box<Extra>>) -> Read {
        let moment = self.lexer.read_timestamp()?;
        let made = builtin::timestamp(self.py, moment);
        let value = self.made(made)?;
        if !builtin::is_exact(moment) {
            let exact = scalar::format_timestamp(&moment);
            let extra = extra.get_or_insert_default();
            extra.exact.push((position, Json::string(exact)));
        }
        Ok(value.into_any().unbind())
    }

    /// A free-form object, as its text.
    #[inline(never)]
    pub(crate) fn object(&mut self) -> Read {
        if self.lexer.peek() != b'{' {
            return Err(Stopped);
        }
        let object = json::raw(self.py, self.raw()?);
        Ok(self.made(object)?.unbind())
    }

    /// Any value, as its text.
    pub(crate) fn raw(&mut self) -> Read<Json> {
        Ok(Json::from_raw(self.lexer.read_raw()?))
    }

    /// Strings by name, as a read-only mapping.
    #[inline(never)]
    pub(crate) fn strings(&mut self) -> Read {
        let strings = PyDict::new(self.py);
        let mut has_more = self.lexer.begin_object()?;
        while has_more {
            let name = self.lexer.read_name()?;
            let name = self.reused.words.get(self.py, &name);
            let value = self.text()?;
            let added = strings.set_item(name, value);
            self.made(added)?;
            has_more = self.lexer.next_field()?;
        }
        let mapping = PyMappingProxy::new(self.py, strings.as_mapping());
        Ok(mapping.into_any().unbind())
    }

    /// An array of models, as a tuple.
    #[inline]
    pub(crate) fn many(&mut self, read: ReadModel) -> Read {
        let first = self.reused.items.len();
        match self.items(read) {
            Ok(()) => {
                let items = PyTuple::new(self.py, self.reused.items.drain(first..));
                Ok(untracked_tuple(self.made(items)?).into_any().unbind())
            }
            Err(stopped) => {
                self.reused.items.truncate(first);
                Err(stopped)
            }
        }
    }

    fn items(&mut self, read: ReadModel) -> Read<()> {
        let mut has_more = self.lexer.begin_array()?;
        while has_more {
            let item = read(self)?;
            self.reused.items.push(item);
            has_more = self.lexer.next_item()?;
        }
        Ok(())
    }
}
