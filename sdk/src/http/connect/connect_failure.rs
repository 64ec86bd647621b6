//! Why no connection could be made, where that is clear, and what to do about it: host names and proxies.

use std::{error::Error, io};

use url::Url;

use crate::http::connect::cause::find;

/// Why there is no connection.
pub(crate) struct Failure {
    pub(crate) text: &'static str,
    /// Whether trying again would not help.
    pub(crate) is_lasting: bool,
}

const NO_SUCH_HOST: Failure = Failure {
    text: "the host in base_url cannot be found; is it right, and is this machine on the network?",
    is_lasting: false,
};

const NOBODY_LISTENS: Failure = Failure {
    text: "nothing listens at the host and port in base_url; are they right, and is the service up?",
    is_lasting: false,
};

const UNREACHABLE: Failure = Failure {
    text: "the proxy cannot be reached; is its address right, and is it up?",
    is_lasting: false,
};

#[cfg(feature = "rustls-no-provider")]
const NOT_SECURE: Failure = Failure {
    text: "no secure connection to the proxy could be made; does it speak TLS, with a certificate that is trusted?",
    is_lasting: true,
};

const UNAUTHORIZED: Failure = Failure {
    text: "the proxy refuses to connect: 407 Proxy Authentication Required; does its URL contain the right user name \
           and password, as in http://user:password@proxy.example.com:3128?",
    is_lasting: true,
};

const REFUSED: Failure = Failure {
    text: "the proxy refuses to connect to the service, or cannot (its response to CONNECT is not 200 OK); does it \
           allow the service's host and port?",
    is_lasting: false,
};

const NO_PROXY: Failure = Failure {
    text: "the server at the proxy's address does not respond to CONNECT as a proxy does; is that address right?",
    is_lasting: false,
};

/// Why there was no connection for a request to `service`, either directly or through a proxy.
pub(crate) fn of(error: &reqwest::Error, service: &Url, through_proxy: bool) -> Option<Failure> {
    if !error.is_connect() || error.is_timeout() {
        return None;
    }
    // The only connection is the one to the proxy.
    if through_proxy && service.scheme() == "http" {
        return Some(unreachable(error));
    }
    let mut cause = Some(error as &dyn Error);
    while let Some(error) = cause {
        // The types of these errors are private to hyper-util, and it does not keep the status of a refusal.
        match error.to_string().as_str() {
            "dns error" => return Some(NO_SUCH_HOST),
            "tunnel error: failed to create underlying connection" => {
                return Some(unreachable(error));
            }
            "tunnel error: proxy authorization required" => return Some(UNAUTHORIZED),
            "tunnel error: unsuccessful" => return Some(REFUSED),
            text if text.starts_with("tunnel error: ") => return Some(NO_PROXY),
            _ => cause = error.source(),
        }
    }
    // Here it is the service that refuses: for a proxy, the tunnel error has already been handled.
    find::<io::Error>(error)
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        .then_some(NOBODY_LISTENS)
}

/// Why there is no connection to the proxy itself.
#[cfg_attr(not(feature = "rustls-no-provider"), allow(unused_variables))]
fn unreachable(error: &(dyn Error + 'static)) -> Failure {
    #[cfg(feature = "rustls-no-provider")]
    if find::<rustls::Error>(error).is_some() {
        return NOT_SECURE;
    }
    UNREACHABLE
}
