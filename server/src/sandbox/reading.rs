//! Other readings of the specification: what a real service may send where the specification is silent.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use dealkit::{schema::Model, wire};
use http::{HeaderValue, Response, StatusCode, header};

use crate::sandbox::rewrite::{self, Change};

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
/// let sandbox = Sandbox::builder().reading(Reading::Sparse).start()?;
/// assert_eq!("errors-html".parse(), Ok(Reading::ErrorsHtml));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading {
    /// What the contract says about this server.
    #[default]
    Reference,
    /// Creating an agent returns 200 instead of 201.
    Ok,
    /// Every optional field is missing.
    Sparse,
    /// Every optional field is null, at every depth: objects and lists stay, so that there is a depth. Missing fields
    /// are null, too.
    Nulls,
    /// Every object has undocumented fields, in errors too, and every string of an open set (statuses, phases, sides,
    /// types, roles) has an undocumented value.
    Extra,
    /// Numbers in unusual forms, in turn: decimals with exponents or 28 digits, and integers as `450000.0`, as `45e4`,
    /// or past 2^53. The decimals keep their values; an integer past 2^53 is a different number.
    Numbers,
    /// Timestamps with offsets, with 0 to 9 digits in the fraction of the second, or without an offset, in turn: the
    /// same moments.
    Times,
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

/// Marks a response whose body the connection is to send in chunks with odd boundaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InChunks;

/// The name is not that of a reading. The message lists those that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReading;

impl fmt::Display for UnknownReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected one of ")?;
        for (index, reading) in Reading::ALL.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{reading}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownReading {}

impl Reading {
    /// Every reading.
    pub const ALL: [Self; 12] = [
        Self::Reference,
        Self::Ok,
        Self::Sparse,
        Self::Nulls,
        Self::Extra,
        Self::Numbers,
        Self::Times,
        Self::Chunked,
        Self::ErrorsText,
        Self::ErrorsHtml,
        Self::ErrorsEmpty,
        Self::ErrorsForeign,
    ];

    /// Its name, as `--reading` and the header `x-sandbox-reading` accept it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Ok => "ok",
            Self::Sparse => "sparse",
            Self::Nulls => "nulls",
            Self::Extra => "extra",
            Self::Numbers => "numbers",
            Self::Times => "times",
            Self::Chunked => "chunked",
            Self::ErrorsText => "errors-text",
            Self::ErrorsHtml => "errors-html",
            Self::ErrorsEmpty => "errors-empty",
            Self::ErrorsForeign => "errors-foreign",
        }
    }

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
        let change = match self {
            Self::Ok => {
                *response.status_mut() = StatusCode::OK;
                return response;
            }
            Self::Sparse => Change::Sparse,
            Self::Nulls => Change::Nulls,
            Self::Extra => Change::Extra,
            Self::Numbers => Change::Numbers,
            Self::Times => Change::Times,
            Self::Reference
            | Self::Chunked
            | Self::ErrorsText
            | Self::ErrorsHtml
            | Self::ErrorsEmpty
            | Self::ErrorsForeign => return response,
        };
        response.map(|body| rewrite::success(&body, model, change))
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
            Self::Extra => return response.map(|body| rewrite::problem(&body)),
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

#[cfg(test)]
mod tests {
    use dealkit::{Agent, Deal, Problem};
    use proptest::prelude::*;

    use super::*;
    use crate::state::generate;

    fn write(reading: Reading, body: &str, model: &Model) -> String {
        let body = Response::new(Bytes::from(body.to_owned()));
        String::from_utf8(reading.write(body, Some(model)).into_body().to_vec()).unwrap()
    }

    fn error(reading: Reading, body: &str) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(body.to_owned()));
        *response.status_mut() = StatusCode::NOT_FOUND;
        let problem = HeaderValue::from_static(wire::PROBLEM_JSON);
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        reading.write(response, None)
    }

    /// What each reading writes, to the letter.
    #[test]
    fn a_reading_writes_what_its_name_says() {
        let deal = r#"{"id": "d", "status": "CLOSED", "created_at": "2024-02-09T23:59:59.5Z",
            "listing_contract": {"side_split": 4500, "sale_price": 0, "commission_rate": 7, "agent": null, "own": 1.0},
            "application": {"requested_amount": 10.10, "offers": [
                {"percent_of_commission": 0.05, "expiry_date_time": "9999-12-31T23:59:59Z"},
                {"percent_of_commission": -12.5, "created_at": "2024-02-09T00:00:00"}
            ]}, "quotes": [], "metadata": {"a": "b"}}"#;
        assert_eq!(write(Reading::Sparse, deal, Deal::SCHEMA), r#"{"id":"d"}"#);
        let nulls = write(Reading::Nulls, deal, Deal::SCHEMA);
        assert!(
            nulls.starts_with(concat!(
                r#"{"id":"d","status":null,"created_at":null,"listing_contract":{"side_split":null,"#,
                r#""sale_price":null,"commission_rate":null,"agent":null,"own":1.0,"id":null,"side":null,"#
            )) && nulls.ends_with(concat!(
                r#""quotes":[],"metadata":null,"phase":null,"expiry_date":null,"contacts":null,"sides":null,"#,
                r#""external_id":null}"#
            )),
            "{nulls}"
        );
        let numbers = write(Reading::Numbers, deal, Deal::SCHEMA);
        for expected in [
            r#""side_split":4500.0,"sale_price":0e0,"commission_rate":9007199254740993,"#,
            r#""requested_amount":1010e-2,"#,
            r#""percent_of_commission":0.0500000000000000000000000000,"#,
            r#""percent_of_commission":-1.25E+1,"#,
        ] {
            assert!(numbers.contains(expected), "{expected} in {numbers}");
        }
        let times = write(Reading::Times, deal, Deal::SCHEMA);
        for expected in [
            r#""created_at":"2024-02-10T05:29:59.5+05:30","#,
            r#""expiry_date_time":"9999-12-31T15:59:59.0-08:00""#,
            r#""created_at":"2024-02-09T00:00:00.00""#,
        ] {
            assert!(times.contains(expected), "{expected} in {times}");
        }
        let extra = write(Reading::Extra, deal, Deal::SCHEMA);
        assert!(extra.contains(r#""status":"SOMETHING_NEW""#), "{extra}");
        // The deal, its contract, its application and two offers.
        assert_eq!(extra.matches(r#""x_number":10.10"#).count(), 5);
        assert_eq!(write(Reading::ErrorsHtml, deal, Deal::SCHEMA), deal);
    }

    #[test]
    fn errors_have_other_bodies() {
        let problem = r#"{"title":"T","status":404,"errors":[{"pointer":"","code":"required"}]}"#;
        for (reading, media_type, body) in [
            (
                Reading::ErrorsText,
                Some("text/plain; charset=utf-8"),
                "Not Found\n",
            ),
            (Reading::ErrorsEmpty, None, ""),
            (
                Reading::ErrorsForeign,
                Some("application/json"),
                r#"{"error":{"code":"not_found","message":"Not Found"}}"#,
            ),
            (Reading::Sparse, Some("application/problem+json"), problem),
        ] {
            let response = error(reading, problem);
            let found = response.headers().get(header::CONTENT_TYPE);
            assert_eq!(found.map(|found| found.to_str().unwrap()), media_type);
            assert_eq!(response.body(), body);
        }
        let html = error(Reading::ErrorsHtml, problem).into_body();
        assert!(
            html.starts_with(b"<!DOCTYPE html>")
                && html.windows(13).any(|at| at == b"404 Not Found")
        );
        let extra = Problem::from_json(error(Reading::Extra, problem).body()).unwrap();
        assert_eq!((extra.title.as_deref(), extra.errors.len()), (Some("T"), 1));
        assert!(extra.extra.contains_key("x_object"));
    }

    #[test]
    fn names_and_readings_are_the_same() {
        for reading in Reading::ALL {
            assert_eq!(reading.name().parse(), Ok(reading));
        }
        let error = "Sparse".parse::<Reading>().unwrap_err().to_string();
        assert!(
            error.starts_with("expected one of reference, ok, sparse, "),
            "{error}"
        );
    }

    #[test]
    fn agents_are_written_too() {
        let agent = r#"{"id":"a_1","email":"a@b.co","date_of_birth":null,"first_name":"A","last_name":"L","profile":{"client_metadata":{"a":1.10}},"current_brokerage_id":"b","role_assignments":[{"role":"Agent::SCHEMA","office_id":"o"}]}"#;
        let sparse = write(Reading::Sparse, agent, Agent::SCHEMA);
        assert_eq!(
            sparse,
            r#"{"id":"a_1","email":"a@b.co","first_name":"A","last_name":"L","profile":{},"role_assignments":[{"role":"Agent::SCHEMA"}]}"#
        );
        let extra = Agent::from_json(write(Reading::Extra, agent, Agent::SCHEMA)).unwrap();
        assert_eq!(extra.role_assignments[0].role, "SOMETHING_NEW");
        assert_eq!(extra.role_assignments[0].extra.len(), 7);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A reading is written as JSON that the SDK reads, whatever the deal.
        #[test]
        fn every_reading_of_every_deal_is_read(seed in any::<u64>(), index in 0_usize..1000) {
            let deal = generate::deal(index, seed);
            let reference = Deal::from_json(&deal).unwrap();
            for reading in Reading::ALL {
                let text = write(reading, &deal, Deal::SCHEMA);
                crate::json::check(text.as_bytes()).unwrap();
                let read = Deal::from_json(&text).unwrap();
                prop_assert_eq!(&read.id, &reference.id);
                if matches!(reading, Reading::Times | Reading::Chunked | Reading::Ok) {
                    prop_assert_eq!(&read, &reference);
                }
            }
        }

        /// The decimals are the same numbers with the same value.
        #[test]
        fn numbers_are_the_same_numbers(number in "-?(0|[1-9][0-9]{0,12})(\\.[0-9]{1,14})?") {
            let deal = |number: &str| format!(r#"{{"id":"d","sides":[{0},{0},{0}]}}"#, format_args!(r#"{{"gross_commission":{number}}}"#));
            let reference = Deal::from_json(deal(&number)).unwrap();
            let text = write(Reading::Numbers, &deal(&number), Deal::SCHEMA);
            let read = Deal::from_json(&text).unwrap();
            for (read, reference) in read.sides.iter().zip(&reference.sides) {
                prop_assert!(read.gross_commission == reference.gross_commission, "{} in {}", number, text);
            }
        }
    }
}
