//! The proxy that a client uses: the configured one, or the one that the environment names.

use std::env;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use crate::value::words::{Setting, Words, words};

const ADDRESS: &str = "is not a URL such as http://proxy.example.com:3128";

#[derive(Clone)]
pub(crate) struct Proxy {
    url: String,
    /// The value of `Proxy-Authorization`, if it is not in the URL.
    authorization: Option<HeaderValue>,
    proxy: Box<reqwest::Proxy>,
}

impl Proxy {
    /// Parses the proxy's address. An address that cannot work is refused here, rather than when the
    /// first call fails to go through. No text shows the address, which may contain a password.
    pub(crate) fn new(text: &str) -> Result<Self, Words> {
        let wrong = |why: &str| words!("{} {}", Setting::Proxy, why.to_owned());
        if text.is_empty() {
            return Err(wrong(
                "is empty: leave it out to use the proxy that the environment names, if any",
            ));
        }
        // A URL parser would drop some of it and connect elsewhere.
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("contains white space or a control character"));
        }
        let (scheme, address) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        check_scheme(&scheme).map_err(wrong)?;
        let url = Url::parse(&format!("{scheme}://{address}"))
            .map_err(|error| wrong(&format!("{ADDRESS}: {error}")))?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(
                "must be just an address, without a path, a query or a fragment; automatic configuration (PAC) is \
                 not supported",
            ));
        }
        let proxy = reqwest::Proxy::all(url.as_str()).map_err(|_| wrong(ADDRESS))?;
        Ok(Self {
            url: text.to_owned(),
            authorization: None,
            proxy: Box::new(proxy),
        })
    }

    /// The proxy that the environment names for a service, if any. hyper-util interprets the variables, as it
    /// does for reqwest, and ignores what it cannot parse.
    pub(crate) fn of_environment(service: &Url) -> Result<Option<Self>, Words> {
        let wrong = |why: &str| {
            words!(
                "the proxy in the environment (HTTPS_PROXY, HTTP_PROXY or ALL_PROXY) {}; set {}, or name the service's \
                 host in NO_PROXY",
                why.to_owned(),
                Setting::Proxy
            )
        };
        if needs_none() {
            return Ok(None);
        }
        let service: Option<Uri> = service.as_str().parse().ok();
        let Some(named) = service.and_then(|service| Matcher::from_env().intercept(&service))
        else {
            return Ok(None);
        };
        check_scheme(named.uri().scheme_str().unwrap_or_default()).map_err(wrong)?;
        let url = named.uri().to_string();
        let mut proxy = reqwest::Proxy::all(&url).map_err(|_| wrong(ADDRESS))?;
        let authorization = named.basic_auth().cloned();
        if let Some(authorization) = authorization.clone() {
            proxy = proxy.custom_http_auth(authorization);
        }
        Ok(Some(Self {
            url,
            authorization,
            proxy: Box::new(proxy),
        }))
    }

    pub(super) fn to_reqwest(&self) -> reqwest::Proxy {
        reqwest::Proxy::clone(&self.proxy)
    }
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url && self.authorization == other.authorization
    }
}

/// What is wrong with a proxy of this scheme, if anything.
fn check_scheme(scheme: &str) -> Result<(), &'static str> {
    match scheme {
        "http" | "https" => Ok(()),
        socks if socks.starts_with("socks") => Err(
            "is a SOCKS proxy, and SOCKS proxies are not supported: name an HTTP proxy, such as \
             http://proxy.example.com:3128",
        ),
        _ => Err("must begin with http:// or https://, as in http://proxy.example.com:3128"),
    }
}

/// Whether the environment says that no host needs a proxy. hyper-util applies the `*` to names only; curl, like
/// most programs, also applies it to addresses.
fn needs_none() -> bool {
    let mut values = ["NO_PROXY", "no_proxy"].into_iter().map(env::var);
    let first = values.find_map(Result::ok);
    first.is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
}
