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
    convert,
    model::{Beyond, Class, Field, Kind, Model, Need, Values},
};

/// Why reading stopped.
pub(crate) enum Failed {
    /// The document is not what it should be.
    Document,
    /// Python refused an object.
    Python(PyErr),
}

impl From<JiterError> for Failed {
    fn from(_: JiterError) -> Self {
        Failed::Document
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Self {
        Failed::Python(error)
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
    pub(crate) fn document<M: Model>(
        py: Python<'py>,
        document: &'j [u8],
    ) -> Result<Bound<'py, M>, Failed> {
        let data = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        let mut reader = Self {
            py,
            data,
            parser: Jiter::new(data),
        };
        if reader.parser.peek()? != Peek::Object {
            return Err(Failed::Document);
        }
        let model = reader.model()?;
        reader.parser.finish()?;
        Ok(model)
    }

    /// Reads an object whose brace comes next.
    pub(crate) fn model<M: Model>(&mut self) -> Result<Bound<'py, M>, Failed> {
        let mut values = Values::default();
        let mut beyond = Beyond::default();
        // Members mostly come in the order of the specification, so the search begins after the last.
        let mut next = 0;
        let mut name = self.parser.known_object()?;
        while let Some(wire) = name {
            match position(M::FIELDS, wire, next) {
                Some((at, field)) => {
                    next = at + 1;
                    let value = self.value(field, at, &mut beyond)?;
                    if let Some(slot) = values.get_mut(at) {
                        *slot = value.map(Bound::unbind);
                    }
                }
                None => {
                    let wire = wire.to_owned();
                    self.parser.peek()?;
                    let value = self.raw()?;
                    beyond.unknown.insert(wire, value);
                }
            }
            name = self.parser.next_key()?;
        }
        let missing = M::FIELDS
            .iter()
            .zip(&values)
            .any(|(field, value)| field.need == Need::Required && value.is_none());
        if missing {
            return Err(Failed::Document);
        }
        Ok(M::build(self.py, values, beyond)?)
    }

    /// Reads the value of a field, `None` for a null where nothing is allowed.
    fn value(
        &mut self,
        field: &Field,
        at: usize,
        beyond: &mut Beyond,
    ) -> Result<Option<Bound<'py, PyAny>>, Failed> {
        // Of two members of one name the last counts.
        beyond.exact.retain(|(exact, _)| *exact != at);
        let peek = self.parser.peek()?;
        if peek == Peek::Null && field.need != Need::Required {
            self.parser.known_null()?;
            return Ok(None);
        }
        let py = self.py;
        Ok(Some(match field.kind {
            Kind::Text => PyString::new(py, self.parser.next_str()?).into_any(),
            Kind::Word => word(py, self.parser.next_str()?).into_any(),
            Kind::Role => {
                let text = self.parser.next_str()?;
                match text.parse::<Role>() {
                    Ok(role) => convert::role(py, role)?,
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
                let integer = scalar::integer(self.number(peek)?).ok_or(Failed::Document)?;
                integer.into_pyobject(py).map_err(PyErr::from)?.into_any()
            }
            Kind::Decimal => {
                let decimal = scalar::decimal(self.number(peek)?).ok_or(Failed::Document)?;
                convert::decimal(py, decimal)?
            }
            Kind::Date => {
                let date = scalar::date(self.parser.next_str()?).ok_or(Failed::Document)?;
                convert::date(py, date)?
            }
            Kind::Timestamp => {
                let moment = scalar::timestamp(self.parser.next_str()?).ok_or(Failed::Document)?;
                let (value, exact) = convert::timestamp(py, moment)?;
                if let Some(exact) = exact {
                    beyond.exact.push((at, exact));
                }
                value
            }
            Kind::Object => {
                if peek != Peek::Object {
                    return Err(Failed::Document);
                }
                let json = self.raw()?;
                let value = convert::json_object(py, &json)?;
                beyond.exact.push((at, json));
                value
            }
            Kind::Strings => self.strings()?,
            Kind::One(class) => self.one(class, peek)?,
            Kind::Many(class) => self.many(class)?,
        }))
    }

    fn one(&mut self, class: &Class, peek: Peek) -> Result<Bound<'py, PyAny>, Failed> {
        if peek == Peek::Object {
            (class.read)(self)
        } else {
            Err(Failed::Document)
        }
    }

    fn many(&mut self, class: &Class) -> Result<Bound<'py, PyAny>, Failed> {
        let mut items = Vec::new();
        let mut peek = self.parser.next_array()?;
        while let Some(item) = peek {
            items.push(self.one(class, item)?);
            peek = self.parser.array_step()?;
        }
        Ok(PyTuple::new(self.py, items)?.into_any())
    }

    fn strings(&mut self) -> Result<Bound<'py, PyAny>, Failed> {
        let dict = PyDict::new(self.py);
        let mut name = self.parser.next_object()?;
        while let Some(text) = name {
            let key = word(self.py, text);
            dict.set_item(key, PyString::new(self.py, self.parser.next_str()?))?;
            name = self.parser.next_key()?;
        }
        Ok(PyMappingProxy::new(self.py, dict.as_mapping()).into_any())
    }

    /// The text of a number.
    fn number(&mut self, peek: Peek) -> Result<&str, Failed> {
        if !peek.is_num() {
            return Err(Failed::Document);
        }
        let digits = self.parser.known_number_bytes(peek)?;
        std::str::from_utf8(digits).map_err(|_| Failed::Document)
    }

    /// The exact text of the value that comes next, of which a peek was taken.
    ///
    /// serde_json finds its end, and not the parser, which has a limit of depth that the core has not.
    fn raw(&mut self) -> Result<Json, Failed> {
        let start = self.parser.current_index();
        let value = self.data.get(start..).ok_or(Failed::Document)?;
        let mut values = serde_json::Deserializer::from_slice(value).into_iter::<&RawValue>();
        let raw = match values.next() {
            Some(Ok(raw)) => raw.get(),
            _ => return Err(Failed::Document),
        };
        self.data = value.get(values.byte_offset()..).ok_or(Failed::Document)?;
        self.parser = Jiter::new(self.data);
        Json::parse(raw).map_err(|_| Failed::Document)
    }
}

/// The field of a member, looked for from `start` on and then from the first.
fn position(fields: &'static [Field], wire: &str, start: usize) -> Option<(usize, &'static Field)> {
    let mut fields = fields
        .iter()
        .enumerate()
        .cycle()
        .skip(start)
        .take(fields.len());
    fields.find(|(_, field)| field.wire == wire)
}

/// How many words are remembered, and how long they are at most.
const WORDS: usize = 512;
const LONGEST_WORD: usize = 32;

thread_local! {
    /// Words that were read lately, each at the place that its hash gives it.
    static LATELY: RefCell<Vec<Option<Py<PyString>>>> =
        RefCell::new(std::iter::repeat_with(|| None).take(WORDS).collect());
}

/// A string that comes again and again, and need not be made again each time.
fn word<'py>(py: Python<'py>, text: &str) -> Bound<'py, PyString> {
    if text.len() > LONGEST_WORD {
        return PyString::new(py, text);
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
    LATELY.with_borrow_mut(|words| {
        let at = usize::try_from(hash % WORDS as u64).unwrap_or_default();
        let Some(slot) = words.get_mut(at) else {
            return PyString::new(py, text);
        };
        if let Some(word) = slot {
            let word = word.bind(py);
            if word.to_str().is_ok_and(|known| known == text) {
                return word.clone();
            }
        }
        let word = PyString::new(py, text);
        *slot = Some(word.clone().unbind());
        word
    })
}
