//! Reading JSON into Python objects, which are built while parsing.
//!
//! How a scalar is read is the core's to say, and so is what is wrong with a document: here reading
//! merely fails.

use std::{
    cell::RefCell,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use dealkit::{Json, Role, scalar};
use jiter::{Jiter, JiterError, Peek};
use pyo3::{
    prelude::*,
    types::{PyDict, PyMappingProxy, PyString, PyTuple},
};
use serde_json::value::RawValue;

use crate::{
    builtin, json,
    schema::{Class, Extra, Field, Kind, Presence, Values},
};

/// Why reading stopped.
pub(crate) enum ReadError {
    /// The document is not what it should be.
    Document,
    /// Python refused an object.
    Python(PyErr),
}

impl From<JiterError> for ReadError {
    fn from(_: JiterError) -> Self {
        ReadError::Document
    }
}

impl From<PyErr> for ReadError {
    fn from(error: PyErr) -> Self {
        ReadError::Python(error)
    }
}

/// Reads one document.
pub(crate) struct Reader<'j, 'py> {
    py: Python<'py>,
    /// What the parser works on.
    data: &'j [u8],
    parser: Jiter<'j>,
}

impl<'j, 'py> Reader<'j, 'py> {
    /// Reads a document that is one model. A byte order mark before it is skipped.
    pub(crate) fn document(
        py: Python<'py>,
        document: &'j [u8],
        class: &Class,
    ) -> Result<Bound<'py, PyAny>, ReadError> {
        Self::whole(py, document, |reader| {
            let peek = reader.parser.peek()?;
            reader.one(class, peek)
        })
    }

    /// Reads a document that is an array of models, into a tuple.
    pub(crate) fn list(
        py: Python<'py>,
        document: &'j [u8],
        class: &Class,
    ) -> Result<Bound<'py, PyAny>, ReadError> {
        Self::whole(py, document, |reader| reader.many(class))
    }

    fn whole(
        py: Python<'py>,
        document: &'j [u8],
        read: impl FnOnce(&mut Self) -> Result<Bound<'py, PyAny>, ReadError>,
    ) -> Result<Bound<'py, PyAny>, ReadError> {
        let data = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        let mut reader = Self {
            py,
            data,
            parser: Jiter::new(data),
        };
        let value = read(&mut reader)?;
        reader.parser.finish()?;
        Ok(value)
    }

    /// Reads an object whose brace comes next.
    fn model(&mut self, class: &Class) -> Result<Bound<'py, PyAny>, ReadError> {
        let mut values = Values::default();
        let mut extra = Extra::default();
        // Members mostly come in the order of the specification, so the search begins after the last.
        let mut next = 0;
        let mut name = self.parser.known_object()?;
        while let Some(wire) = name {
            match position(class.fields, wire, next) {
                Some((at, field)) => {
                    next = at + 1;
                    let value = self.value(field, at, &mut extra)?;
                    if let Some(slot) = values.get_mut(at) {
                        *slot = value.map(Bound::unbind);
                    }
                }
                None => {
                    let wire = wire.to_owned();
                    self.parser.peek()?;
                    let value = self.raw()?;
                    extra.unknown.insert(wire, value);
                }
            }
            name = self.parser.next_key()?;
        }
        let missing = class
            .fields
            .iter()
            .zip(&values)
            .any(|(field, value)| field.presence == Presence::Required && value.is_none());
        if missing {
            return Err(ReadError::Document);
        }
        Ok((class.build)(self.py, values, extra)?)
    }

    /// Reads the value of a field, `None` for a null where nothing is allowed.
    fn value(
        &mut self,
        field: &Field,
        at: usize,
        extra: &mut Extra,
    ) -> Result<Option<Bound<'py, PyAny>>, ReadError> {
        // Of two fields of one name the last counts.
        extra.exact.retain(|(exact, _)| *exact != at);
        let peek = self.parser.peek()?;
        if peek == Peek::Null && field.presence != Presence::Required {
            self.parser.known_null()?;
            return Ok(None);
        }
        let py = self.py;
        Ok(Some(match field.kind {
            Kind::Text => PyString::new(py, self.parser.next_str()?).into_any(),
            Kind::Interned => interned(py, self.parser.next_str()?).into_any(),
            Kind::Role => {
                let text = self.parser.next_str()?;
                match text.parse::<Role>() {
                    Ok(role) => builtin::role(py, role)?,
                    Err(_) => PyString::new(py, text).into_any(),
                }
            }
            Kind::Boolean => self
                .parser
                .known_bool(peek)?
                .into_pyobject(py)
                .map_err(PyErr::from)?
                .to_owned()
                .into_any(),
            Kind::Integer => {
                let integer = scalar::integer(self.number(peek)?).ok_or(ReadError::Document)?;
                integer.into_pyobject(py).map_err(PyErr::from)?.into_any()
            }
            Kind::Decimal => {
                let decimal = scalar::decimal(self.number(peek)?).ok_or(ReadError::Document)?;
                builtin::decimal(py, &decimal.to_string())?
            }
            Kind::Date => {
                let date = scalar::date(self.parser.next_str()?).ok_or(ReadError::Document)?;
                builtin::date(py, date)?
            }
            Kind::Timestamp => {
                let moment =
                    scalar::timestamp(self.parser.next_str()?).ok_or(ReadError::Document)?;
                let (value, exact) = builtin::timestamp(py, moment)?;
                if let Some(exact) = exact {
                    extra.exact.push((at, exact));
                }
                value
            }
            Kind::Object => {
                if peek != Peek::Object {
                    return Err(ReadError::Document);
                }
                json::raw(py, self.raw()?)?
            }
            Kind::Strings => self.strings()?,
            Kind::One(class) => self.one(class, peek)?,
            Kind::Many(class) => self.many(class)?,
        }))
    }

    fn one(&mut self, class: &Class, peek: Peek) -> Result<Bound<'py, PyAny>, ReadError> {
        if peek == Peek::Object {
            self.model(class)
        } else {
            Err(ReadError::Document)
        }
    }

    fn many(&mut self, class: &Class) -> Result<Bound<'py, PyAny>, ReadError> {
        let mut items = Vec::new();
        let mut peek = self.parser.next_array()?;
        while let Some(item) = peek {
            items.push(self.one(class, item)?);
            peek = self.parser.array_step()?;
        }
        Ok(PyTuple::new(self.py, items)?.into_any())
    }

    fn strings(&mut self) -> Result<Bound<'py, PyAny>, ReadError> {
        let dict = PyDict::new(self.py);
        let mut name = self.parser.next_object()?;
        while let Some(text) = name {
            let key = interned(self.py, text);
            dict.set_item(key, PyString::new(self.py, self.parser.next_str()?))?;
            name = self.parser.next_key()?;
        }
        Ok(PyMappingProxy::new(self.py, dict.as_mapping()).into_any())
    }

    /// The text of a number.
    fn number(&mut self, peek: Peek) -> Result<&str, ReadError> {
        if !peek.is_num() {
            return Err(ReadError::Document);
        }
        let digits = self.parser.known_number_bytes(peek)?;
        std::str::from_utf8(digits).map_err(|_| ReadError::Document)
    }

    /// The exact text of the value that comes next, of which a peek was taken.
    ///
    /// serde_json finds its end, and not the parser, which has a limit of depth that the core has not.
    fn raw(&mut self) -> Result<Json, ReadError> {
        let start = self.parser.current_index();
        let value = self.data.get(start..).ok_or(ReadError::Document)?;
        let mut values = serde_json::Deserializer::from_slice(value).into_iter::<&RawValue>();
        let raw = match values.next() {
            Some(Ok(raw)) => raw.get(),
            _ => return Err(ReadError::Document),
        };
        self.data = value
            .get(values.byte_offset()..)
            .ok_or(ReadError::Document)?;
        self.parser = Jiter::new(self.data);
        Json::parse(raw).map_err(|_| ReadError::Document)
    }
}

/// The field of a name, looked for from `start` on and then from the first.
fn position(fields: &'static [Field], wire: &str, start: usize) -> Option<(usize, &'static Field)> {
    let mut fields = fields
        .iter()
        .enumerate()
        .cycle()
        .skip(start)
        .take(fields.len());
    fields.find(|(_, field)| field.wire == wire)
}

/// How many strings are kept, and how long they are at most.
const INTERNED: usize = 512;
const LONGEST_INTERNED: usize = 32;

thread_local! {
    /// Strings that were read lately, each at the place that its hash gives it.
    static LATELY: RefCell<Vec<Option<Py<PyString>>>> =
        RefCell::new(std::iter::repeat_with(|| None).take(INTERNED).collect());
}

/// A string that comes again and again, and need not be made again each time.
fn interned<'py>(py: Python<'py>, text: &str) -> Bound<'py, PyString> {
    if text.len() > LONGEST_INTERNED {
        return PyString::new(py, text);
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
    LATELY.with_borrow_mut(|strings| {
        let at = usize::try_from(hash % INTERNED as u64).unwrap_or_default();
        let Some(slot) = strings.get_mut(at) else {
            return PyString::new(py, text);
        };
        if let Some(known) = slot {
            let known = known.bind(py);
            if known.to_str().is_ok_and(|known| known == text) {
                return known.clone();
            }
        }
        let new = PyString::new(py, text);
        *slot = Some(new.clone().unbind());
        new
    })
}
