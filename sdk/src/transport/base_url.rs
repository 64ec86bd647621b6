//! Base URLs of services: their validation and comparison.

use std::borrow::Cow;

use url::Url;

use crate::{specification::wire, value::text_encoding::is_quoted};

/// Parses a base URL. An error is only the problem, such as `must begin with https:// or http://`; the caller adds the
/// setting's name.
pub(crate) fn parse(text: &str) -> Result<Url, Cow<'static, str>> {
    if is_quoted(text) {
        return Err("must not be in quotation marks: remove them".into());
    }
    let url = Url::parse(text).map_err(|error| {
        format!("is not an absolute URL such as https://deals.example.com: {error}")
    })?;
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "must begin with https:// or http://"
    } else if !url.username().is_empty() || url.password().is_some() {
        "must not contain a user name or password; the service key is a setting of its own"
    } else if url.query().is_some() || url.fragment().is_some() {
        "must not contain a query or a fragment"
    } else if url.path().trim_end_matches('/').ends_with(wire::API_PREFIX) {
        "must not end in /v1: dealkit adds it"
    } else {
        return Ok(url);
    };
    Err(problem.into())
}

/// Returns the normal form of a base URL: its host in lower case, without the scheme's default port and without a slash at the
/// end.
#[cfg(feature = "ledger")]
pub(crate) fn normalize(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Returns true if a recorded base URL, which may have been written by hand, is equivalent to this base URL in the normal form.
#[cfg(feature = "ledger")]
pub(crate) fn is_equivalent(recorded_url: &str, normal_url: &str) -> bool {
    match parse(recorded_url) {
        Ok(url) => normalize(&url) == normal_url,
        Err(_) => recorded_url == normal_url,
    }
}
