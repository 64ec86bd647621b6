//! Other readings of the specification: what a real service may send where the specification is silent.

use clap::ValueEnum;

/// The header that selects another reading for one request.
pub(crate) const READING_HEADER: &str = "x-sandbox-reading";

/// How the server reads the specification where it leaves something open: statuses, what may be missing or null, how
/// numbers and times are written, what an error's body looks like. A client should accept all of it.
///
/// A reading changes how a response is written, and not what is created or stored.
///
/// ```
/// use dealkit_server::{Reading, Sandbox};
///
/// let sandbox = Sandbox::builder().reading(Reading::Sparse).reading(Reading::Chunked).start()?;
/// assert_eq!(Reading::list("sparse,errors-html"), Ok(vec![Reading::Sparse, Reading::ErrorsHtml]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum Reading {
    /// What the contract says about this server.
    #[default]
    Reference,
    /// Creating an agent returns 200 instead of 201.
    Ok,
    /// A missing or unknown service key is refused with 403 instead of 401.
    Forbidden,
    /// An agent that breaks the rules is refused with 400 instead of 422.
    BadRequest,
    /// Every optional field is missing.
    Sparse,
    /// Every optional field is null, at every depth: objects and lists stay, so that there is a depth. Missing fields
    /// are null, too.
    Nulls,
    /// Every object has undocumented fields, in errors too, and every string of an extensible enum (statuses, phases, sides,
    /// types, roles) has an undocumented value.
    Extra,
    /// Numbers in unusual forms, in turn: decimals with exponents or 28 digits, and integers as `450000.0`, as `45e4`,
    /// or past 2^53. The decimals keep their values; an integer past 2^53 is a different number.
    Numbers,
    /// Timestamps with offsets, with 0 to 9 digits in the fraction of the second, or without an offset, in turn: the
    /// same moments.
    Times,
    /// Timestamps in the forms of ISO 8601 that RFC 3339 leaves out, in turn: offsets without a colon or without minutes, the
    /// basic format, a comma, no seconds, and 24:00: the same moments.
    IsoTimes,
    /// The body comes in chunks with odd boundaries, without a length.
    Chunked,
    /// Errors are plain text.
    ErrorsText,
    /// Errors are a web page.
    ErrorsHtml,
    /// Errors have no body.
    ErrorsEmpty,
    /// Errors are JSON of another kind: `{"error": {"code": …, "message": …}}`.
    ErrorsForeign,
}

impl Reading {
    /// Every reading.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Its name, as `--reading` and the header `x-sandbox-reading` accept it.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The readings in a list, such as `sparse,errors-html`.
    ///
    /// # Errors
    /// When a name is not that of a reading.
    pub fn list(names: &str) -> Result<Vec<Self>, UnknownReading> {
        let readings = names
            .split(',')
            .map(|name| Self::from_str(name.trim(), false));
        readings
            .collect::<Result<_, _>>()
            .map_err(|_| UnknownReading)
    }
}

/// Marks a response whose body the connection is to send in chunks with odd boundaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InChunks;

/// The name is not that of a reading. The message lists those that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}", Reading::all().iter().map(|reading| reading.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownReading;
