//! Numbers in documents as Decimal: fees, splits and percentages are the same few again and again.

use dealkit::lexer::Digits;
use pyo3::prelude::*;

use crate::python::{
    builtin::{self, MakeDecimal},
    kept::Kept,
};

/// Makes Decimals, and keeps the most recent ones that have few digits.
#[derive(Default)]
pub(crate) struct Decimals {
    kept: Kept<Digits, PyAny>,
    maker: Maker,
}

/// Made when it is first needed.
#[derive(Default)]
struct Maker(Option<MakeDecimal>);

impl Decimals {
    /// The Decimal of a number with these digits. 1.5 and 1.50 have different digits: they are equal, but not the
    /// same.
    #[inline]
    pub(crate) fn get(
        &mut self,
        py: Python<'_>,
        digits: Digits,
        text: &str,
    ) -> PyResult<Py<PyAny>> {
        let Digits { mantissa, scale } = digits;
        let number = mantissa as u64 ^ (u64::from(scale) << 58);
        let make = || self.maker.make(py, text);
        self.kept.get(py, digits, number, make)
    }

    /// The Decimal of a number that the core has found to fit.
    pub(crate) fn make(&mut self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        self.maker.make(py, text)
    }
}

impl Maker {
    fn make(&mut self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        let make = match &self.0 {
            Some(make) => make,
            None => self.0.insert(builtin::make_decimal(py)?),
        };
        make.of(py, text)
    }
}
