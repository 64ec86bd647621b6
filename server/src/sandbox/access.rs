//! Access control of the control interface under /__sandbox/.

use std::net::IpAddr;

use dealkit::internal::wire;
use http::{HeaderValue, Method, header, request::Parts, uri::Authority};

use crate::contract::{
    auth::ServiceKey,
    checks::{has_body, is_json},
    problem::{ProblemType, Rejection},
};

/// The header for the token.
pub(crate) const TOKEN_HEADER: &str = "x-sandbox-token";

/// The requirement for access to the control interface.
#[derive(Debug)]
pub(crate) enum Access {
    /// No token: the server listens on loopback and has the documented default key.
    Open,
    /// A token: the value of `--admin-token`, or else the service key, if it is not the default key.
    Token(ServiceKey),
    /// No access: other machines can reach the server, and it has no token.
    Closed,
    /// The control interface is turned off.
    Off,
}

/// The clients that may use an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Audience {
    /// All clients: the operation reveals nothing about requests and changes nothing.
    Public,
    /// Browsers, which load the page before they can send a token. The page reveals nothing either.
    Browsers,
    /// Clients with access. They must send bodies as JSON, which a form on another origin's page cannot.
    Authorized,
}

impl Access {
    /// Checks that a request to /v1 may carry a fault header. If the token is the service key, the
    /// request already contains it in `x-service-key`.
    pub(crate) fn check_fault_header(&self, head: &Parts) -> Result<(), Rejection> {
        match self {
            Self::Token(token) if has_token(token, head, wire::SERVICE_KEY_HEADER) => {
                check_origin(head)
            }
            _ => self.check_authorized(head),
        }
    }

    /// Checks that the control interface is on and not closed. Does not check the token, which the page cannot send yet.
    fn check_enabled(&self) -> Result<(), Rejection> {
        match self {
            Self::Off => Err(Rejection::new(
                ProblemType::UNKNOWN_PATH,
                "This server was started with --no-admin.",
            )),
            Self::Closed => Err(Rejection::new(
                ProblemType::ADMIN_DENIED,
                "This server can be reached from other machines. Start it with a token (DEALKIT_SERVER_ADMIN_TOKEN, or \
                 --admin-token-file for one in a file), and send the token in the header x-sandbox-token.",
            )),
            Self::Open | Self::Token(_) => Ok(()),
        }
    }

    /// Checks that the request may use an operation for this audience.
    pub(crate) fn check(&self, audience: Audience, head: &Parts) -> Result<(), Rejection> {
        match audience {
            Audience::Public => return Ok(()),
            Audience::Browsers => return self.check_enabled(),
            Audience::Authorized => self.check_authorized(head)?,
        }
        let is_write = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
        let has_input = head.headers.contains_key(header::CONTENT_TYPE) || has_body(head);
        if is_write && has_input && !is_json(head) {
            return Err(Rejection::new(
                ProblemType::MEDIA_TYPE,
                "Send the header Content-Type: application/json, once.",
            ));
        }
        Ok(())
    }

    /// Checks the token, or the host if there is none, and the origin.
    fn check_authorized(&self, head: &Parts) -> Result<(), Rejection> {
        self.check_enabled()?;
        match self {
            Self::Token(token) if !has_token(token, head, TOKEN_HEADER) => {
                let rejection = Rejection::new(
                    ProblemType::ADMIN_TOKEN,
                    "Send the token in the header x-sandbox-token, once: the value of --admin-token, or the service \
                     key of this server if there is none.",
                );
                Err(rejection.header(header::WWW_AUTHENTICATE, "SandboxToken realm=\"dealkit\""))
            }
            // Prevents DNS rebinding: a web page's host name can resolve to this machine.
            Self::Open if !request_host(head).is_some_and(|host| is_this_machine(&host)) => {
                Err(Rejection::new(
                    ProblemType::ADMIN_DENIED,
                    "Use the host localhost, 127.0.0.1 or [::1], or start the server with --admin-token.",
                ))
            }
            _ => check_origin(head),
        }
    }
}

/// Returns true if the request has this header exactly once, and its value is the token.
fn has_token(token: &ServiceKey, head: &Parts, name: &str) -> bool {
    let mut values = head.headers.get_all(name).iter();
    matches!((values.next(), values.next()), (Some(value), None) if token.matches(value.as_bytes()))
}

/// Returns the host and port to which the request was sent.
fn request_host(head: &Parts) -> Option<Authority> {
    match head.uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => head.headers.get(header::HOST)?.to_str().ok()?.parse().ok(),
    }
}

/// Returns true if the host is localhost or a loopback address, with or without a port. Rejects names such as
/// `[::1].example`, which can belong to a web site.
fn is_this_machine(authority: &Authority) -> bool {
    let text = authority.as_str();
    let port = text.rsplit_once(':');
    let port = port.filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = port.map_or(text, |(host, _)| host);
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

fn check_origin(head: &Parts) -> Result<(), Rejection> {
    if is_same_origin(head) {
        return Ok(());
    }
    let detail = "The request comes from a web page with another origin.";
    Err(Rejection::new(ProblemType::ADMIN_DENIED, detail))
}

/// Returns true if the request comes from no web page, or from a page of this server.
fn is_same_origin(head: &Parts) -> bool {
    let (headers, host) = (&head.headers, request_host(head));
    let is_same_site = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let is_own_origin = |origin: &HeaderValue| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        let host = host.as_ref().map(Authority::as_str);
        (origin.zip(host)).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
    };
    headers.get_all("sec-fetch-site").iter().all(is_same_site)
        && headers.get_all(header::ORIGIN).iter().all(is_own_origin)
}
