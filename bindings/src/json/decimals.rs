//! Numbers in documents as Decimal: fees, splits and percentages are the same few again and again.

use dealkit::internal::lexer::Digits;
use pyo3::prelude::*;

use crate::python::{
    builtin::{self, MakeDecimal},
    kept::Kept,
};

/// Makes Decimals, and keeps the most recent ones that have few digits.
#[derive(Default)]
pub(crate) struct Decimals {
    kept: Kept<Digits, PyAny>,
    /// Made when it is first needed.
    maker: Option<MakeDecimal>,
}

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
        let make = || made(&mut self.maker, py, text);
        self.kept.get(py, digits, number, make)
    }

    /// The Decimal of a number that the core has found to fit.
    pub(crate) fn make(&mut self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        made(&mut self.maker, py, text)
    }
}

fn made(maker: &mut Option<MakeDecimal>, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    let maker = match maker {
        Some(maker) => maker,
        None => maker.insert(builtin::make_decimal(py)?),
    };
    maker.of(py, text)
}
