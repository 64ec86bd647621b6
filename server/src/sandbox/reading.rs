//! Other readings of the specification: what a real service may send where the specification is silent.

use std::{fmt, str::FromStr};

/// The header that selects another reading for one request.
pub(crate) const READING_HEADER: &str = "x-sandbox-reading";

macro_rules! readings {
    ($( $(#[$about:meta])* $reading:ident $name:literal; )+) => {
        /// How the server reads the specification where it leaves something open: statuses, what may be missing or null, how
        /// numbers and times are written, what an error's body looks like. A client should accept all of it.
        ///
        /// A reading changes how a response is written, and not what is created or stored.
        ///
        /// ```
        /// use dealkit_server::{Reading, Sandbox};
        ///
        /// let sandbox = Sandbox::builder().reading(Reading::Sparse).reading(Reading::Chunked).start()?;
        /// assert_eq!("errors-html".parse(), Ok(Reading::ErrorsHtml));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Reading {
            $( $(#[$about])* $reading, )+
        }

        impl Reading {
            /// Every reading.
            pub const ALL: &'static [Self] = &[$(Self::$reading),+];

            /// Its name, as `--reading` and the header `x-sandbox-reading` accept it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reading => $name,)+
                }
            }

            /// The readings in a list, such as `sparse,errors-html`.
            ///
            /// # Errors
            /// When a name is not that of a reading.
            pub fn list(names: &str) -> Result<Vec<Self>, UnknownReading> {
                names.split(',').map(|name| name.trim().parse()).collect()
            }
        }
    };
}

readings! {
    /// What the contract says about this server.
    #[default]
    Reference "reference";
    /// Creating an agent returns 200 instead of 201.
    Ok "ok";
    /// A missing or unknown service key is refused with 403 instead of 401.
    Forbidden "forbidden";
    /// An agent that breaks the rules is refused with 400 instead of 422.
    BadRequest "bad-request";
    /// Every optional field is missing.
    Sparse "sparse";
    /// Every optional field is null, at every depth: objects and lists stay, so that there is a depth. Missing fields
    /// are null, too.
    Nulls "nulls";
    /// Every object has undocumented fields, in errors too, and every string of an open set (statuses, phases, sides,
    /// types, roles) has an undocumented value.
    Extra "extra";
    /// Numbers in unusual forms, in turn: decimals with exponents or 28 digits, and integers as `450000.0`, as `45e4`,
    /// or past 2^53. The decimals keep their values; an integer past 2^53 is a different number.
    Numbers "numbers";
    /// Timestamps with offsets, with 0 to 9 digits in the fraction of the second, or without an offset, in turn: the
    /// same moments.
    Times "times";
    /// The body comes in chunks with odd boundaries, without a length.
    Chunked "chunked";
    /// Errors are plain text.
    ErrorsText "errors-text";
    /// Errors are a web page.
    ErrorsHtml "errors-html";
    /// Errors have no body.
    ErrorsEmpty "errors-empty";
    /// Errors are JSON of another kind: `{"error": {"code": …, "message": …}}`.
    ErrorsForeign "errors-foreign";
}

/// Marks a response whose body the connection is to send in chunks with odd boundaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InChunks;

/// The name is not that of a reading. The message lists those that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}", Reading::ALL.iter().map(|reading| reading.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownReading;

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reading {
    type Err = UnknownReading;

    fn from_str(name: &str) -> Result<Self, UnknownReading> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reading| reading.name() == name)
            .ok_or(UnknownReading)
    }
}
