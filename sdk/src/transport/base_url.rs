//! The URL of a service: which URLs are valid, and when two are the same.

use url::Url;

use crate::{
    specification::wire,
    value::{
        marked_text::is_quoted,
        words::{
            Setting::{BaseUrl, ServiceKey},
            Words, words,
        },
    },
};

pub(crate) fn parse(text: &str) -> Result<Url, Words> {
    if is_quoted(text) {
        return Err(words!(
            "{} must not be in quotation marks: remove them",
            BaseUrl
        ));
    }
    let url = Url::parse(text).map_err(|error| {
        words!(
            "{} is not an absolute URL such as https://deals.example.com: {}",
            BaseUrl,
            error.to_string()
        )
    })?;
    let wrong = if !matches!(url.scheme(), "http" | "https") {
        words!("{} must begin with https:// or http://", BaseUrl)
    } else if !url.username().is_empty() || url.password().is_some() {
        words!(
            "{} must not contain a user name or password; pass the service key as {}",
            BaseUrl,
            ServiceKey
        )
    } else if url.query().is_some() || url.fragment().is_some() {
        words!("{} must not contain a query or a fragment", BaseUrl)
    } else if url.path().trim_end_matches('/').ends_with(wire::API_PREFIX) {
        words!("{} must not end in /v1: dealkit adds it", BaseUrl)
    } else {
        return Ok(url);
    };
    Err(wrong)
}

/// The normal form of a base URL, in whatever form it was given: its host in lower case, without the scheme's default
/// port and without a slash at the end.
#[cfg(feature = "ledger")]
pub(crate) fn normal(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Whether a recorded base URL, perhaps written by hand, is this one.
#[cfg(feature = "ledger")]
pub(crate) fn is_same(written: &str, normal_url: &str) -> bool {
    match parse(written) {
        Ok(url) => normal(&url) == normal_url,
        Err(_) => written == normal_url,
    }
}
