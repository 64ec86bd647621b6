//! What the errors of hyper and hyper-util mean: why no connection could be made, where that is clear, and what to do
//! about it. It is about host names and proxies; TLS has errors of its own.

use std::{error::Error, io};

#[cfg(unix)]
use rustix::io::Errno;
use url::Url;

use crate::{
    transport::connect::{cause::ConnectFailure, find::find},
    value::words::{Setting::BaseUrl, words},
};

/// Why there was no connection for a request to `service`, either directly or through a proxy.
pub(crate) fn connect_failure(
    error: &reqwest::Error,
    service: &Url,
    through_proxy: bool,
) -> Option<ConnectFailure> {
    if !error.is_connect() || error.is_timeout() {
        return None;
    }
    // The only connection is the one to the proxy.
    if through_proxy && service.scheme() == "http" {
        return Some(unreachable(error));
    }
    // The types of these errors are private to hyper-util, and it does not keep the status of a refusal.
    let mut cause = Some(error as &(dyn Error + 'static));
    while let Some(error) = cause {
        cause = error.source();
        let text = error.to_string();
        let Some(what) = text.strip_prefix("tunnel error: ") else {
            if text == "dns error" {
                return Some(ConnectFailure::passing(words!(
                    "the host in {} cannot be found; is it right, and is this machine on the network?",
                    BaseUrl
                )));
            }
            continue;
        };
        return Some(match what {
            "failed to create underlying connection" => unreachable(error),
            "proxy authorization required" => ConnectFailure::lasting(words!(
                "the proxy refuses to connect: 407 Proxy Authentication Required; does its URL contain the right \
                 user name and password, as in http://user:password@proxy.example.com:3128?"
            )),
            "unsuccessful" => ConnectFailure::passing(words!(
                "the proxy refuses to connect to the service, or cannot (its response to CONNECT is not 200 OK); does \
                 it allow the service's host and port?"
            )),
            _ => ConnectFailure::passing(words!(
                "the server at the proxy's address does not respond to CONNECT as a proxy does; is that address right?"
            )),
        });
    }
    // Here it is the service that refuses: for a proxy, the tunnel error has already been handled.
    find::<io::Error>(error)
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        .then(|| {
            ConnectFailure::passing(words!(
                "nothing is listening at the host and port in {}; are they right, and is the service up?",
                BaseUrl
            ))
        })
}

/// Why there is no connection to the proxy itself.
fn unreachable(error: &(dyn Error + 'static)) -> ConnectFailure {
    if find::<rustls::Error>(error).is_some() {
        return ConnectFailure::lasting(words!(
            "no secure connection to the proxy could be made; does it speak TLS, with a certificate that is trusted?"
        ));
    }
    ConnectFailure::passing(words!(
        "the proxy cannot be reached; is its address right, and is it up?"
    ))
}

/// Whether the connection ended before any part of the request was sent.
pub(crate) fn was_not_begun(error: &reqwest::Error) -> bool {
    find(error).is_some_and(hyper::Error::is_canceled)
}

#[cfg_attr(not(unix), allow(unused_variables))]
pub(crate) fn lacks_descriptor(error: &reqwest::Error) -> bool {
    #[cfg(unix)]
    return error.is_connect()
        && find::<io::Error>(error).is_some_and(|error| {
            matches!(
                Errno::from_io_error(error),
                Some(Errno::MFILE | Errno::NFILE)
            )
        });
    #[cfg(not(unix))]
    false
}

/// Returns where the head of a response is not valid HTTP, if that is the failure, as precisely as hyper says.
pub(crate) fn find_malformed_part(error: &reqwest::Error) -> Option<&'static str> {
    let error = find::<hyper::Error>(error).filter(|error| error.is_parse())?;
    Some(match error.to_string().as_str() {
        "message head is too large" => "its size or the number of its header lines",
        "invalid content-length parsed" => "the header Content-Length",
        "unexpected transfer-encoding parsed" => "the header Transfer-Encoding",
        "invalid HTTP header parsed" => "one of its header lines, below the status line",
        _ => "its status line",
    })
}
