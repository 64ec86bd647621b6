//! Variants: permissible behavior of real services where the specification leaves details open.

use clap::ValueEnum;

/// The header of a request that selects variants for its response.
pub(crate) const VARIANT_HEADER: &str = "x-sandbox-variant";

/// A permissible difference from the reference server where the specification leaves details open: statuses, missing and null
/// fields, formats of numbers and times, bodies of errors. A client should accept all variants.
///
/// A variant changes the response, but not the created or stored data.
///
/// ```
/// use dealkit_server::{Variant, Sandbox};
///
/// let sandbox = Sandbox::builder().variant(Variant::Sparse).variant(Variant::Chunked).start()?;
/// assert_eq!(Variant::parse_list("sparse,errors-html"), Ok(vec![Variant::Sparse, Variant::ErrorsHtml]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum Variant {
    /// No difference.
    #[default]
    Reference,
    /// Creating an agent returns 200 instead of 201.
    Ok,
    /// A missing or unknown service key gets a 403 instead of a 401.
    Forbidden,
    /// An agent that breaks the rules gets a 400 instead of a 422.
    BadRequest,
    /// Every optional field is missing.
    Sparse,
    /// Every optional field is null, at every depth, including missing fields. Objects and lists remain, so that there are
    /// nested fields.
    Nulls,
    /// Every object has undocumented fields, even in errors. Every extensible enum (statuses, phases, sides, types, roles) has
    /// an undocumented value.
    Extra,
    /// Numbers in alternating unusual formats: decimals with exponents or 28 digits; integers as `450000.0`, as `45e4`, or
    /// above 2^53. Decimals keep their values; an integer above 2^53 is a different number.
    Numbers,
    /// Timestamps in alternating formats: with and without offsets, with 0 to 9 fractional digits. They keep their values.
    Times,
    /// Timestamps in alternating formats of ISO 8601 that RFC 3339 excludes: offsets without a colon or without minutes, the
    /// basic format, a comma, no seconds, and 24:00. They keep their values.
    IsoTimes,
    /// Bodies are sent in chunks with odd boundaries, without a length.
    Chunked,
    /// Errors are plain text.
    ErrorsText,
    /// Errors are HTML pages.
    ErrorsHtml,
    /// Errors have no body.
    ErrorsEmpty,
    /// Errors are JSON with other fields: `{"error": {"code": …, "message": …}}`.
    ErrorsForeign,
}

impl Variant {
    /// Returns all variants.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the name, as in `--variant` and the header `x-sandbox-variant`.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Parses names separated by commas, such as `sparse,errors-html`.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn parse_list(names: &str) -> Result<Vec<Self>, UnknownVariant> {
        let variants = names
            .split(',')
            .map(|name| Self::from_str(name.trim(), false));
        variants
            .collect::<Result<_, _>>()
            .map_err(|_| UnknownVariant)
    }
}

/// Response extension: send the body in chunks with odd boundaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OddChunks;

/// An unknown name of a variant. The message lists the known names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}", Variant::all().iter().map(|variant| variant.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownVariant;
