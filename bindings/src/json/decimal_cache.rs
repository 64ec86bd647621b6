//! Cache of the Decimals in documents: fees, splits and percentages often repeat.

use dealkit::internal::lexer::Digits;
use pyo3::prelude::*;

use crate::python::{builtin::DecimalFactory, object_cache::ObjectCache};

/// Makes Decimals, and caches recent Decimals with few digits.
#[derive(Default)]
pub(crate) struct DecimalCache {
    cache: ObjectCache<Digits, PyAny>,
    /// Made at the first use.
    factory: Option<DecimalFactory>,
}

impl DecimalCache {
    /// Returns the Decimal with these digits. `text` is the same number as a string. 1.5 and 1.50 have different digits: they are
    /// two Decimals.
    #[inline]
    pub(crate) fn get_or_make(
        &mut self,
        py: Python<'_>,
        digits: Digits,
        text: &str,
    ) -> PyResult<Py<PyAny>> {
        let Digits { mantissa, scale } = digits;
        let hash = mantissa as u64 ^ (u64::from(scale) << 58);
        let make = || make_decimal(&mut self.factory, py, text);
        self.cache.get_or_make(py, digits, hash, make)
    }

    /// Makes a Decimal without caching it. The core has checked that the number fits the factory's context.
    pub(crate) fn make(&mut self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        make_decimal(&mut self.factory, py, text)
    }
}

fn make_decimal(
    factory: &mut Option<DecimalFactory>,
    py: Python<'_>,
    text: &str,
) -> PyResult<Py<PyAny>> {
    let factory = match factory {
        Some(factory) => factory,
        None => factory.insert(DecimalFactory::new(py)?),
    };
    factory.make(py, text)
}
