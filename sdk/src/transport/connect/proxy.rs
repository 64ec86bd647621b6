//! The proxy of a client: the configured proxy, or the proxy in the environment variables.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use crate::{
    transport::environment::read_variable,
    value::{
        message::{Message, Setting},
        text_encoding::is_quoted,
    },
};

const NOT_A_URL: &str = "is not a URL such as http://proxy.example.com:3128";

/// A parsed proxy address, and its credentials.
#[derive(Clone)]
pub(crate) struct Proxy {
    url: String,
    /// The value of the `Proxy-Authorization` header, unless the URL has the credentials.
    authorization: Option<HeaderValue>,
    proxy: Box<reqwest::Proxy>,
}

impl Proxy {
    /// Parses the proxy's address. An address that cannot work is an error here, rather than at the first call. No message
    /// shows the address, which may contain a password.
    pub(crate) fn parse(text: &str) -> Result<Self, Message> {
        let make_message = |problem: &str| Message::about(Setting::Proxy, problem.to_owned());
        if text.is_empty() {
            return Err(make_message(
                "is empty: leave it out to use the proxy that the environment names, if any",
            ));
        }
        // A URL parser drops some white space, so the client would connect to another address.
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(make_message("contains white space or a control character"));
        }
        let (scheme, address) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        check_scheme(&scheme).map_err(make_message)?;
        let url = Url::parse(&format!("{scheme}://{address}"))
            .map_err(|error| make_message(&format!("{NOT_A_URL}: {error}")))?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(make_message(
                "must be just an address, without a path, a query or a fragment; automatic configuration (PAC) is \
                 not supported",
            ));
        }
        let proxy = reqwest::Proxy::all(url.as_str()).map_err(|_| make_message(NOT_A_URL))?;
        Ok(Self {
            url: text.to_owned(),
            authorization: None,
            proxy: Box::new(proxy),
        })
    }

    /// Returns the proxy in the environment variables for a service, if any. hyper-util interprets the values.
    pub(crate) fn from_environment(service: &Url) -> Result<Option<Self>, Message> {
        let Some(host) = service.host_str().map(|host| host.trim_end_matches('.')) else {
            return Ok(None);
        };
        let Ok(destination) = format!("{}://{host}", service.scheme()).parse::<Uri>() else {
            return Ok(None);
        };
        let named_proxy = match service.scheme() {
            "https" => read_first(&["HTTPS_PROXY", "https_proxy"])?,
            // In a CGI program, HTTP_PROXY holds the header `Proxy` of an incoming request.
            _ if read_variable("REQUEST_METHOD")?.is_some() => read_first(&["http_proxy"])?,
            _ => read_first(&["HTTP_PROXY", "http_proxy"])?,
        };
        let read_all_proxy = || read_first(&["ALL_PROXY", "all_proxy"]);
        let Some((name, value)) =
            named_proxy.map_or_else(read_all_proxy, |named_proxy| Ok(Some(named_proxy)))?
        else {
            return Ok(None);
        };
        let no_proxy_list = read_first(&["NO_PROXY", "no_proxy"])?
            .map_or_else(String::new, |(_, list)| {
                normalize_no_proxy(&list, service.port_or_known_default())
            });
        let any_proxy = Matcher::builder()
            .all("http://proxy")
            .no(&no_proxy_list)
            .build();
        // The `*` of hyper-util applies to names only; curl, like most programs, also applies it to addresses.
        if no_proxy_list.split(',').any(|host| host == "*")
            || any_proxy.intercept(&destination).is_none()
        {
            return Ok(None);
        }
        let make_message = |problem: &str| {
            Message::from(format!(
                "the proxy in the environment variable {name} {problem}; correct it, set another proxy, or name the \
                 service's host in NO_PROXY"
            ))
            .see(Setting::Proxy)
        };
        if is_quoted(&value) {
            return Err(make_message("must not be in quotation marks"));
        }
        if let Some((scheme, _)) = value.split_once("://") {
            check_scheme(&scheme.to_ascii_lowercase()).map_err(make_message)?;
        }
        let parsed = Matcher::builder().all(&value).build();
        let named_proxy = parsed
            .intercept(&destination)
            .ok_or_else(|| make_message(NOT_A_URL))?;
        let url = named_proxy.uri().to_string();
        let mut proxy = reqwest::Proxy::all(&url).map_err(|_| make_message(NOT_A_URL))?;
        let authorization = named_proxy.basic_auth().cloned();
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

/// Checks that the scheme of a proxy's URL is supported. Otherwise returns the problem.
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

/// Returns the first of these variables that is not empty, with its value.
fn read_first(names: &[&'static str]) -> Result<Option<(&'static str, String)>, Message> {
    for name in names {
        if let Some(value) = read_variable(name)? {
            let value = value.trim();
            if !value.is_empty() {
                return Ok(Some((name, value.to_owned())));
            }
        }
    }
    Ok(None)
}

/// Returns the list in `NO_PROXY` in the form that hyper-util reads: without ports and final dots, and with a leading dot
/// instead of `*.`. An entry with another port than the service's is left out.
fn normalize_no_proxy(list: &str, port: Option<u16>) -> String {
    let entries = list.split(|c: char| c == ',' || c.is_whitespace());
    let hosts = entries.filter_map(|entry| {
        let host = match entry.rsplit_once(':') {
            // An IPv6 address with a port is in brackets.
            Some((host, entry_port)) if host.ends_with(']') || !host.contains(':') => {
                Some(host).filter(|_| entry_port.parse().ok() == port)?
            }
            _ => entry,
        };
        let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
        Some(
            host.strip_prefix('*')
                .filter(|rest| rest.starts_with('.'))
                .unwrap_or(host),
        )
    });
    hosts.collect::<Vec<_>>().join(",")
}
