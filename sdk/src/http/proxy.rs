//! A proxy that a client is told to go through.

use url::Url;

use crate::error::Error;

/// A proxy that speaks HTTP.
#[derive(Clone)]
pub(crate) struct Proxy {
    url: String,
    proxy: Box<reqwest::Proxy>,
}

impl Proxy {
    /// Reads the proxy's address. What cannot work is refused here, and not when the first call cannot go
    /// through; no text shows the address, which may hold a password.
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::config(format!("proxy {why}"));
        if text.is_empty() {
            return Err(wrong(
                "is empty: leave it out to go through the proxy that the environment names, if it names one",
            ));
        }
        // A URL parser would drop some of it and go somewhere else.
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("holds white space or a control character"));
        }
        let (scheme, address) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "http" => {}
            "https" if cfg!(feature = "rustls-no-provider") => {}
            "https" => {
                return Err(wrong(
                    "is https, and dealkit was built without its feature `rustls`",
                ));
            }
            "socks" | "socks4" | "socks4a" | "socks5" | "socks5h" => {
                return Err(wrong(
                    "is a SOCKS proxy, and SOCKS proxies are not supported: name an HTTP proxy, such as \
                     http://proxy.example.com:3128",
                ));
            }
            _ => {
                return Err(wrong(
                    "must begin with http:// or https://, as in http://proxy.example.com:3128",
                ));
            }
        }
        let unreadable = "is not a URL such as http://proxy.example.com:3128";
        let url = Url::parse(&format!("{scheme}://{address}"))
            .map_err(|error| wrong(&format!("{unreadable}: {error}")))?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(
                "must be an address alone, without a path, a query or a fragment; automatic configuration (PAC) \
                 is not supported",
            ));
        }
        let proxy = reqwest::Proxy::all(url.as_str()).map_err(|_| wrong(unreadable))?;
        Ok(Self {
            url: text.to_owned(),
            proxy: Box::new(proxy),
        })
    }

    /// The proxy, for a pool.
    pub(super) fn to_reqwest(&self) -> reqwest::Proxy {
        reqwest::Proxy::clone(&self.proxy)
    }
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}
