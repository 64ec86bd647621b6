//! JSON documents as they are handed over: as bytes or as text.

use std::borrow::Cow;

use pyo3::{
    prelude::*,
    types::{PyByteArray, PyBytes, PyString},
};

use crate::python::{
    builtin,
    failure::{Failure, Outcome},
};

/// A JSON document, or what should be one.
pub(crate) enum Document<'a> {
    /// Bytes about which nothing is known.
    Bytes(Cow<'a, [u8]>),
    /// Text that Python or Rust has found to be UTF-8.
    Text(&'a str),
}

impl<'a> From<&'a [u8]> for Document<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a> Document<'a> {
    /// The document of an argument: bytes, or a str.
    pub(crate) fn of(value: &'a Bound<'_, PyAny>) -> Outcome<Self> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(bytes.as_bytes().into());
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(match text.to_str() {
                Ok(text) => Self::Text(text),
                // A lone surrogate: the core will say that this is not JSON.
                Err(_) => Self::Bytes(Cow::Owned(builtin::wtf8(text)?)),
            });
        }
        if let Ok(bytes) = value.cast::<PyByteArray>() {
            return Ok(Self::Bytes(Cow::Owned(bytes.to_vec())));
        }
        Err(Failure::Type(format!(
            "a JSON document must be bytes or str, not {}",
            builtin::type_name(value)
        )))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }

    /// The document as text, if it is UTF-8.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Text(text) => Some(text),
        }
    }
}
