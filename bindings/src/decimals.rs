//! Numbers of documents as Decimal: fees, splits and percentages are the same few again and again.

use dealkit::lexer::Digits;
use pyo3::prelude::*;

use crate::{
    builtin::{self, MakeDecimal},
    words::scatter,
};

/// How many numbers are kept, a power of two.
const KEPT: usize = 1 << KEPT_BITS;
const KEPT_BITS: u32 = 9;

/// The numbers that were read last, each at the place that its digits give it.
pub(crate) struct Decimals {
    kept: Box<[Option<(Digits, Py<PyAny>)>]>,
    make: Option<MakeDecimal>,
}

impl Default for Decimals {
    fn default() -> Self {
        Self {
            kept: std::iter::repeat_with(|| None).take(KEPT).collect(),
            make: None,
        }
    }
}

impl Decimals {
    /// The Decimal of a number with these digits.
    #[inline]
    pub(crate) fn get(
        &mut self,
        py: Python<'_>,
        digits: Digits,
        text: &str,
    ) -> PyResult<Py<PyAny>> {
        let Digits { mantissa, scale } = digits;
        let place = scatter(mantissa as u64 ^ (u64::from(scale) << 58), KEPT_BITS);
        // 1.5 and 1.50 are other digits: they are equal, and yet not the same.
        if let Some(Some((kept, decimal))) = self.kept.get(place)
            && *kept == digits
        {
            return Ok(decimal.clone_ref(py));
        }
        let decimal = self.make(py, text)?;
        if let Some(slot) = self.kept.get_mut(place) {
            *slot = Some((digits, decimal.clone_ref(py)));
        }
        Ok(decimal)
    }

    /// The Decimal of a number that the core has found to fit.
    pub(crate) fn make(&mut self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        let make = match &self.make {
            Some(make) => make,
            None => self.make.insert(builtin::make_decimal(py)?),
        };
        make.of(py, text)
    }
}
