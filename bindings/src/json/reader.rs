//! Reads a JSON document into Python objects, in one pass.
//!
//! The lexer of the crate `dealkit` decides which values are valid. If it rejects a value, reading stops. The function `explain` of
//! that crate then reads the document again to find the reason.

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
    json::{extra::Extra, reader_caches::ReaderCaches, value as json},
    python::{
        ascii, builtin,
        failure::{Failure, Result},
        gil,
        untrack::untrack_tuple,
    },
};

/// Reading has stopped: the lexer rejected a value, or Python could not make an object.
pub(crate) struct ReadError;

impl From<LexError> for ReadError {
    fn from(_: LexError) -> Self {
        ReadError
    }
}

pub(crate) type ReadResult<T = Py<PyAny>> = Result<T, ReadError>;

/// A function that reads a JSON object into a model.
pub(crate) type ReadModel = fn(&mut Reader<'_, '_>) -> ReadResult;

/// Reads one document, value by value.
pub(crate) struct Reader<'j, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) lexer: Lexer<'j>,
    caches: Box<ReaderCaches>,
    /// The exception with which Python failed to make an object.
    python_error: Option<PyErr>,
}

/// A cancellation check, called while a large document is read.
pub(crate) type ShouldContinue<'w> = &'w dyn Fn() -> bool;

/// Reads a document into a model. Skips a leading byte order mark.
///
/// Every 64 KB, other threads can take the GIL, and `should_continue` is called. `to_failure` converts the error of an
/// invalid document.
pub(crate) fn read_document<'py>(
    py: Python<'py>,
    document: &[u8],
    model: &'static Model,
    read: ReadModel,
    unreadable: Unreadable,
    should_continue: ShouldContinue<'_>,
    to_failure: impl FnOnce(DecodeError) -> Failure,
) -> Result<Bound<'py, PyAny>> {
    let kind = FieldKind::Model(model);
    if let Err(error) = check_value_count(document) {
        return Err(to_failure(error));
    }
    let should_continue = || {
        gil::release(py, || ());
        should_continue()
    };
    let Ok(text) = str::from_utf8(document) else {
        let error = gil::release(py, || explain_error::explain(document, kind, 0));
        return Err(to_failure(error));
    };
    let mut reader = Reader {
        py,
        lexer: Lexer::new(text.strip_prefix('\u{feff}').unwrap_or(text)),
        caches: ReaderCaches::take(),
        python_error: None,
    };
    if unreadable == Unreadable::Skip {
        reader.lexer.enable_skip_unreadable();
    }
    reader.lexer.set_should_continue(&should_continue);
    let value = read(&mut reader).and_then(|value| {
        reader.lexer.expect_end()?;
        Ok(value.into_bound(py))
    });
    reader.caches.put_back();
    match (value, reader.python_error) {
        (_, Some(error)) => Err(error.into()),
        (Ok(value), None) => Ok(value),
        (Err(ReadError), None) if reader.lexer.is_cancelled() => {
            Err(to_failure(explain_error::cancelled_error(document)))
        }
        (Err(ReadError), None) => {
            let stopped_at = reader.lexer.position();
            let error = gil::release(py, || explain_error::explain(document, kind, stopped_at));
            Err(to_failure(error))
        }
    }
}

impl<'py> Reader<'_, 'py> {
    /// Returns an object that Python has made. If Python has failed to make it, stores the exception and stops reading.
    #[inline]
    pub(crate) fn check_object<T>(&mut self, object: PyResult<T>) -> ReadResult<T> {
        object.map_err(|error| {
            self.python_error = Some(error);
            ReadError
        })
    }

    /// Skips the value of an optional field that could not be read, as [`Lexer::skip_unreadable_value`] does.
    #[cold]
    pub(crate) fn skip_value(&mut self, start: usize, field: &str) -> ReadResult<Option<Json>> {
        if self.python_error.is_some() {
            return Err(ReadError);
        }
        Ok(self
            .lexer
            .skip_unreadable_value(start, field)?
            .map(Json::from_raw))
    }

    #[inline(never)]
    pub(crate) fn read_text(&mut self) -> ReadResult {
        let text = self.lexer.read_string()?;
        Ok(ascii::new_str(self.py, &text).into_any().unbind())
    }

    /// Reads a string that often repeats, such as a status. Equal strings share one str.
    #[inline(never)]
    pub(crate) fn read_cached_text(&mut self) -> ReadResult {
        let text = self.lexer.read_string()?;
        Ok(self.caches.strings.get_or_make(self.py, &text).into_any())
    }

    /// Reads a role. Returns a member of the enum Role, or a str if the role is undocumented.
    #[inline(never)]
    pub(crate) fn read_role(&mut self) -> ReadResult {
        let text = self.lexer.read_string()?;
        match text.parse::<Role>() {
            Ok(role) => {
                let role = builtin::role_member(self.py, role);
                Ok(self.check_object(role)?.unbind())
            }
            Err(_) => Ok(ascii::new_str(self.py, &text).into_any().unbind()),
        }
    }

    #[inline(never)]
    pub(crate) fn read_boolean(&mut self) -> ReadResult {
        let boolean = self.lexer.read_boolean()?;
        Ok(PyBool::new(self.py, boolean).to_owned().into_any().unbind())
    }

    #[inline(never)]
    pub(crate) fn read_integer(&mut self) -> ReadResult {
        let integer = self.lexer.read_integer()?;
        Ok(builtin::make_small_int(self.py, integer)
            .into_any()
            .unbind())
    }

    #[inline(never)]
    pub(crate) fn read_decimal(&mut self) -> ReadResult {
        let number = self.lexer.read_number()?;
        let decimal = match number.digits {
            Some(digits) => self
                .caches
                .decimals
                .get_or_make(self.py, digits, number.text),
            None => {
                let decimal = scalar::parse_decimal(number.text).ok_or(ReadError)?;
                self.caches.decimals.make(self.py, &decimal.to_string())
            }
        };
        self.check_object(decimal)
    }

    #[inline(never)]
    pub(crate) fn read_date(&mut self) -> ReadResult {
        let date = self.lexer.read_date()?;
        let date = builtin::make_date(self.py, date);
        Ok(self.check_object(date)?.into_any().unbind())
    }

    /// Reads the timestamp of the field at a position. If a datetime cannot hold all its digits, `extra` gets the exact JSON.
    #[inline(never)]
    pub(crate) fn read_timestamp(
        &mut self,
        position: usize,
        extra: &mut Option<Box<Extra>>,
    ) -> ReadResult {
        let timestamp = self.lexer.read_timestamp()?;
        let value = builtin::make_datetime(self.py, timestamp);
        let value = self.check_object(value)?;
        if !builtin::has_whole_microseconds(timestamp) {
            let exact = scalar::format_timestamp(&timestamp);
            let extra = extra.get_or_insert_default();
            extra.exact_timestamps.push((position, Json::string(exact)));
        }
        Ok(value.into_any().unbind())
    }

    /// Reads a JSON object of any content, as a RawJson.
    #[inline(never)]
    pub(crate) fn read_raw_object(&mut self) -> ReadResult {
        if self.lexer.peek() != b'{' {
            return Err(ReadError);
        }
        let object = json::make_raw_json(self.py, self.read_raw()?);
        Ok(self.check_object(object)?.unbind())
    }

    /// Reads any value, as JSON text.
    pub(crate) fn read_raw(&mut self) -> ReadResult<Json> {
        Ok(Json::from_raw(self.lexer.read_raw()?))
    }

    /// Reads an object whose values are strings, as a read-only mapping.
    #[inline(never)]
    pub(crate) fn read_string_map(&mut self) -> ReadResult {
        let strings = PyDict::new(self.py);
        let mut has_more = self.lexer.begin_object()?;
        while has_more {
            let name = self.lexer.read_name()?;
            let name = self.caches.strings.get_or_make(self.py, &name);
            let value = self.read_text()?;
            let set_result = strings.set_item(name, value);
            self.check_object(set_result)?;
            has_more = self.lexer.next_field()?;
        }
        let mapping = PyMappingProxy::new(self.py, strings.as_mapping());
        Ok(mapping.into_any().unbind())
    }

    /// Reads an array of models, as a tuple.
    #[inline]
    pub(crate) fn read_array(&mut self, read: ReadModel) -> ReadResult {
        let first = self.caches.items.len();
        match self.read_items(read) {
            Ok(()) => {
                let items = PyTuple::new(self.py, self.caches.items.drain(first..));
                Ok(untrack_tuple(self.check_object(items)?).into_any().unbind())
            }
            Err(error) => {
                self.caches.items.truncate(first);
                Err(error)
            }
        }
    }

    fn read_items(&mut self, read: ReadModel) -> ReadResult<()> {
        let mut has_more = self.lexer.begin_array()?;
        while has_more {
            let item = read(self)?;
            self.caches.items.push(item);
            has_more = self.lexer.next_item()?;
        }
        Ok(())
    }
}
