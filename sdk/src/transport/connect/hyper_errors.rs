//! Classification of the errors of reqwest, hyper and hyper-util, except for TLS (see `rustls_errors`).
//!
//! The outcome, and whether a call is retried, depend only on typed values: the predicates of `reqwest::Error` and
//! `hyper::Error`, and the kind of an `io::Error`. The text of an error only adds advice to our message. That advice needs the
//! text, because hyper-util's errors of name resolution and of proxies have private types, and hyper's parse errors do not say
//! in a typed way which part is malformed. If a library changes a text, only the advice is lost.

use std::{error::Error, io};

#[cfg(unix)]
use rustix::io::Errno;
use url::Url;

use crate::{
    transport::connect::find::find_source,
    value::message::{
        Message,
        Setting::{BaseUrl, Proxy},
    },
};

/// Returns the reason why there was no connection for a request to `service`, directly or through a proxy, if it is known.
pub(crate) fn find_connect_failure(
    error: &reqwest::Error,
    service: &Url,
    has_proxy: bool,
) -> Option<Message> {
    if !error.is_connect() || error.is_timeout() {
        return None;
    }
    // Through a proxy, a request without TLS uses only one connection, which is to the proxy.
    if has_proxy && service.scheme() == "http" {
        return Some(describe_unreachable_proxy(error));
    }
    if let Some(advice) = advise_by_text(error) {
        return Some(advice);
    }
    find_source::<io::Error>(error)
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        .then(|| {
            Message::from(
                "nothing is listening at the host and port in the base URL; are they right, and is the service up?",
            )
            .see(BaseUrl)
        })
}

/// Returns advice on a failure of name resolution or of a proxy, which differ only in the texts of hyper-util's errors.
fn advise_by_text(error: &reqwest::Error) -> Option<Message> {
    let mut source = Some(error as &(dyn Error + 'static));
    while let Some(error) = source {
        source = error.source();
        let text = error.to_string();
        if text == "dns error" {
            return Some(
                Message::from(
                    "the host in the base URL cannot be found; is it right, and is this machine on the network?",
                )
                .see(BaseUrl),
            );
        }
        let Some(reason) = text.strip_prefix("tunnel error: ") else {
            continue;
        };
        let advice = match reason {
            "failed to create underlying connection" => {
                return Some(describe_unreachable_proxy(error));
            }
            "proxy authorization required" => {
                "the proxy rejects the connection: 407 Proxy Authentication Required; does its URL contain the right user \
                 name and password, as in http://user:password@proxy.example.com:3128?"
            }
            "unsuccessful" => {
                "the proxy does not connect to the service (its response to CONNECT is not 200 OK); does it allow the \
                 service's host and port?"
            }
            _ => {
                "the server at the proxy's address does not respond to CONNECT as a proxy does; is that address right?"
            }
        };
        return Some(Message::from(advice).see(Proxy));
    }
    None
}

/// Returns the message about a failed connection to the proxy itself.
fn describe_unreachable_proxy(error: &(dyn Error + 'static)) -> Message {
    let text = if find_source::<rustls::Error>(error).is_some() {
        "no secure connection to the proxy could be made; does it speak TLS, with a certificate that is trusted?"
    } else {
        "the proxy cannot be reached; is its address right, and is it up?"
    };
    Message::from(text).see(Proxy)
}

/// Returns true if the connection ended before any part of the request was sent.
pub(crate) fn ended_before_request(error: &reqwest::Error) -> bool {
    find_source(error).is_some_and(hyper::Error::is_canceled)
}

/// Returns true if the process or the system has no free file descriptor for a connection.
#[cfg_attr(not(unix), allow(unused_variables))]
pub(crate) fn lacks_descriptor(error: &reqwest::Error) -> bool {
    #[cfg(unix)]
    return error.is_connect()
        && find_source::<io::Error>(error).is_some_and(|error| {
            matches!(
                Errno::from_io_error(error),
                Some(Errno::MFILE | Errno::NFILE)
            )
        });
    #[cfg(not(unix))]
    false
}

/// Returns the malformed part of a response head, if the head is not valid HTTP. The type of the error shows that it is
/// malformed; its text only names the part.
pub(crate) fn find_malformed_part(error: &reqwest::Error) -> Option<&'static str> {
    let error = find_source::<hyper::Error>(error).filter(|error| error.is_parse())?;
    Some(match error.to_string().as_str() {
        "message head is too large" => "its size or the number of its header lines",
        "invalid content-length parsed" => "the header Content-Length",
        "unexpected transfer-encoding parsed" => "the header Transfer-Encoding",
        "invalid HTTP header parsed" => "one of its header lines, below the status line",
        _ => "its status line",
    })
}
