//! Other readings of the specification: what a real service may send where the specification is silent.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use dealkit::{schema::Model, wire};
use http::{HeaderValue, Response, StatusCode, header};

use crate::sandbox::rewrite;

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
        /// let sandbox = Sandbox::builder().reading(Reading::Sparse).start()?;
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
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$reading),+];

            /// Its name, as `--reading` and the header `x-sandbox-reading` accept it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reading => $name,)+
                }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReading;

impl fmt::Display for UnknownReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected one of {}",
            Reading::ALL.map(Reading::name).join(", ")
        )
    }
}

impl std::error::Error for UnknownReading {}

impl Reading {
    /// Rewrites a response for this reading; `model` is that of its body if it is a success.
    pub(crate) fn write(
        self,
        mut response: Response<Bytes>,
        model: Option<&Model>,
    ) -> Response<Bytes> {
        if self == Self::Chunked {
            response.extensions_mut().insert(InChunks);
            return response;
        }
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            return self.write_error(response);
        }
        let Some(model) = model.filter(|_| status.is_success()) else {
            return response;
        };
        match self {
            Self::Ok => *response.status_mut() = StatusCode::OK,
            Self::Sparse | Self::Nulls | Self::Extra | Self::Numbers | Self::Times => {
                return response.map(|body| rewrite::success(body, model, self));
            }
            _ => {}
        }
        response
    }

    fn write_error(self, response: Response<Bytes>) -> Response<Bytes> {
        let status = response.status();
        let reason = status.canonical_reason().unwrap_or("Error");
        let (media_type, body) = match self {
            Self::ErrorsText => ("text/plain; charset=utf-8", format!("{reason}\n")),
            Self::ErrorsHtml => (
                "text/html; charset=utf-8",
                format!(
                    "<!DOCTYPE html>\n<html><head><title>{code} {reason}</title></head>\n\
                     <body><center><h1>{code} {reason}</h1></center><hr></body></html>\n",
                    code = status.as_u16()
                ),
            ),
            Self::ErrorsEmpty => {
                let mut response = response.map(|_| Bytes::new());
                response.headers_mut().remove(header::CONTENT_TYPE);
                return response;
            }
            Self::ErrorsForeign => {
                let code = reason.to_ascii_lowercase().replace([' ', '-'], "_");
                let body = serde_json::json!({"error": {"code": code, "message": reason}});
                (wire::JSON, body.to_string())
            }
            Self::Extra => return response.map(rewrite::problem),
            _ => return response,
        };
        let mut response = response.map(|_| Bytes::from(body));
        let media_type = HeaderValue::from_static(media_type);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, media_type);
        response
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reading {
    type Err = UnknownReading;

    fn from_str(name: &str) -> Result<Self, UnknownReading> {
        let mut all = Self::ALL.into_iter();
        all.find(|reading| reading.name() == name)
            .ok_or(UnknownReading)
    }
}
