//! Who may use the interface under /__sandbox/: no web page of another origin, and not everybody who can reach the
//! server.

use std::net::IpAddr;

use dealkit::internal::wire;
use http::{HeaderValue, Method, header, request::Parts, uri::Authority};

use crate::contract::{
    auth::ServiceKey,
    checks::{has_body, is_json},
    problem::{ProblemType, Refusal},
};

/// The header that carries the token.
pub(crate) const TOKEN_HEADER: &str = "x-sandbox-token";

/// What a request must show to be let in.
#[derive(Debug)]
pub(crate) enum Access {
    /// Nothing: the server listens on loopback, and its key is the one that everybody knows.
    Open,
    /// A token: that of `--admin-token` or, without one, the service key that was chosen.
    Token(ServiceKey),
    /// Nobody is let in: the server can be reached from other machines and was given no token.
    Closed,
    Off,
}

/// Whom an operation is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenTo {
    /// Everybody who can reach the server: it reveals nothing about requests and changes nothing.
    Everybody,
    /// Browsers, which load it before they can send a token. It reveals nothing either.
    Browsers,
    /// Those who are let in. What they write is JSON, or nothing, neither of which a form on another page can send.
    Callers,
}

impl Access {
    /// Whether a request of /v1 may make something go wrong. Where the token is the service key, the request has it
    /// already.
    pub(crate) fn check_fault(&self, head: &Parts) -> Result<(), Refusal> {
        match self {
            Self::Token(token) if has_token(token, head, wire::SERVICE_KEY_HEADER) => {
                check_origin(head)
            }
            _ => self.check_caller(head),
        }
    }

    /// Whether there is an interface at all: the check for a page that has no token yet.
    fn check_page(&self) -> Result<(), Refusal> {
        match self {
            Self::Off => Err(Refusal::new(
                ProblemType::UNKNOWN_PATH,
                "This server was started with --no-admin.",
            )),
            Self::Closed => Err(Refusal::new(
                ProblemType::ADMIN_REFUSED,
                "This server can be reached from other machines. Start it with a token (DEALKIT_SERVER_ADMIN_TOKEN, or \
                 --admin-token-file for one in a file), and send the token in the header x-sandbox-token.",
            )),
            Self::Open | Self::Token(_) => Ok(()),
        }
    }

    /// Whether a request for an operation that is open to these may proceed.
    pub(crate) fn check(&self, open_to: OpenTo, head: &Parts) -> Result<(), Refusal> {
        match open_to {
            OpenTo::Everybody => return Ok(()),
            OpenTo::Browsers => return self.check_page(),
            OpenTo::Callers => self.check_caller(head)?,
        }
        let is_write = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
        let has_input = head.headers.contains_key(header::CONTENT_TYPE) || has_body(head);
        if is_write && has_input && !is_json(head) {
            return Err(Refusal::new(
                ProblemType::MEDIA_TYPE,
                "Send the header Content-Type: application/json, once.",
            ));
        }
        Ok(())
    }

    /// Whether the request comes from somebody who may be here.
    fn check_caller(&self, head: &Parts) -> Result<(), Refusal> {
        self.check_page()?;
        match self {
            Self::Token(token) if !has_token(token, head, TOKEN_HEADER) => {
                let refusal = Refusal::new(
                    ProblemType::ADMIN_TOKEN,
                    "Send the token in the header x-sandbox-token, once: the value of --admin-token, or the service \
                     key of this server if there is none.",
                );
                Err(refusal.header(header::WWW_AUTHENTICATE, "SandboxToken realm=\"dealkit\""))
            }
            // A page whose own host name resolves to this machine is stopped by that name.
            Self::Open if !host(head).is_some_and(|host| is_this_machine(&host)) => {
                Err(Refusal::new(
                    ProblemType::ADMIN_REFUSED,
                    "Use the host localhost, 127.0.0.1 or [::1], or start the server with --admin-token.",
                ))
            }
            _ => check_origin(head),
        }
    }
}

/// Whether the request has the token in this header, which it has once.
fn has_token(token: &ServiceKey, head: &Parts, name: &str) -> bool {
    let mut sent = head.headers.get_all(name).iter();
    matches!((sent.next(), sent.next()), (Some(sent), None) if token.matches(sent.as_bytes()))
}

/// The host that the request was sent to.
fn host(head: &Parts) -> Option<Authority> {
    match head.uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => head.headers.get(header::HOST)?.to_str().ok()?.parse().ok(),
    }
}

/// Whether the host is localhost or a loopback address, with or without a port, and nothing else: `[::1].example` is
/// somebody's name.
fn is_this_machine(authority: &Authority) -> bool {
    let text = authority.as_str();
    let port = text.rsplit_once(':');
    let port = port.filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = port.map_or(text, |(host, _)| host);
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

fn check_origin(head: &Parts) -> Result<(), Refusal> {
    if is_same_origin(head) {
        return Ok(());
    }
    let detail = "The request comes from a web page with another origin.";
    Err(Refusal::new(ProblemType::ADMIN_REFUSED, detail))
}

/// Whether the request comes from no page, or from one of this server.
fn is_same_origin(head: &Parts) -> bool {
    let (headers, host) = (&head.headers, host(head));
    let is_here = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|it| it.split_once("://"));
        let host = host.as_ref().map(Authority::as_str);
        (origin.zip(host)).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
    };
    headers.get_all("sec-fetch-site").iter().all(is_here)
        && headers.get_all(header::ORIGIN).iter().all(is_own)
}
