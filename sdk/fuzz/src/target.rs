//! Any request that an HTTP library can hand to the server.

use bytes::Bytes;
use dealkit_server::{SeedDeal, Service};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};

use crate::{
    json,
    sandbox::{self, KEY},
};

const MAX_BODY: usize = 512;

/// Any bytes as a request: `METHOD TARGET VERSION`, lines of `name: value`, an empty line, the body. In a value,
/// `{key}` stands for the right key. Whatever a request cannot hold is left out.
pub fn target(data: &[u8]) {
    thread_local! {
        static SERVICES: (Service, Service) = (
            sandbox::service(SeedDeal::samples(), |config| config.max_body_bytes = MAX_BODY),
            sandbox::service(SeedDeal::samples(), |config| {
                config.max_body_bytes = MAX_BODY;
                config.max_agents = 0;
            }),
        );
    }
    if let Some(request) = parse(data) {
        SERVICES.with(|(service, full)| answered(&request, service, full));
    }
}

fn parse(data: &[u8]) -> Option<Request<Bytes>> {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((data, &[][..]), |end| (&data[..end], &data[end + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri = Uri::try_from(words.next()?).ok()?;
    let version = match words.next() {
        Some(b"HTTP/1.0") => Version::HTTP_10,
        Some(b"HTTP/2") => Version::HTTP_2,
        _ => Version::HTTP_11,
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        let value = match value {
            b"{key}" => KEY.as_bytes(),
            other => other,
        };
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    let mut request = Request::new(Bytes::copy_from_slice(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = version;
    *request.headers_mut() = headers;
    Some(request)
}

fn answered(request: &Request<Bytes>, service: &Service, full: &Service) {
    let response = service.handle(request.clone());
    let is_head = request.method() == Method::HEAD;
    let status = sandbox::check(&response, is_head);
    if let Some(expected) = expected(request) {
        assert_eq!(status, expected, "{request:?}");
    }

    // The caller's own request id is returned if it is valid, and only then.
    let sent: Vec<&[u8]> = values(request, "x-request-id");
    let id = sandbox::header(&response, "x-request-id").unwrap();
    if let [sent] = sent[..] {
        let sane = (1..=128).contains(&sent.len()) && sent.iter().all(u8::is_ascii_graphic);
        assert_eq!(sane, id.as_bytes() == sent);
    }

    // No response repeats the key, except where it is the request's own id or agent.
    if status >= 400 && id != KEY {
        assert!(!String::from_utf8_lossy(response.body()).contains(KEY));
    }
    match status {
        200 => {
            assert!(is_head || *request.method() == Method::GET);
            if !is_head {
                assert!(json::is_strict(response.body()));
            }
        }
        201 => assert_eq!(service.agents().len(), 1),
        _ => {}
    }
    service.reset();

    // HEAD gives the same response as GET, without its body.
    if is_head {
        let mut get = request.clone();
        *get.method_mut() = Method::GET;
        let get = service.handle(get);
        assert_eq!(get.status(), response.status());
        let length = sandbox::header(&response, "content-length").unwrap();
        if id.starts_with("req_") {
            // A fresh request id may be a digit longer than the last one.
            let difference = length.parse::<usize>().unwrap().abs_diff(get.body().len());
            assert!(difference <= 1);
        } else {
            assert_eq!(length, get.body().len().to_string());
        }
    }

    // A full store changes one response only.
    let by_full = sandbox::check(&full.handle(request.clone()), is_head);
    assert_eq!(by_full, if status == 201 { 507 } else { status });
}

fn values<'r>(request: &'r Request<Bytes>, name: &str) -> Vec<&'r [u8]> {
    let values = request.headers().get_all(name).iter();
    values.map(HeaderValue::as_bytes).collect()
}

/// The status by the contract's table, where the first check leaves no doubt.
fn expected(request: &Request<Bytes>) -> Option<u16> {
    let uri = request.uri();
    let [host] = values(request, "host")[..] else {
        return (request.version() == Version::HTTP_11).then_some(400);
    };
    let plain_host = !host.is_empty() && host.iter().all(u8::is_ascii_lowercase);
    let origin_form =
        uri.scheme().is_none() && uri.authority().is_none() && uri.path().starts_with('/');
    // Message framing is covered by the tests with bare sockets.
    let framed = request.headers().contains_key(header::TRANSFER_ENCODING);
    if request.version() != Version::HTTP_11 || !plain_host || !origin_form || framed {
        return None;
    }

    let segments: Vec<Option<String>> = uri.path().split('/').skip(1).map(decoded).collect();
    let segments: Vec<Option<&str>> = segments.iter().map(Option::as_deref).collect();
    let (methods, deal) = match segments[..] {
        [Some("v1"), Some("agents")] => (&["POST"][..], None),
        [Some("v1"), Some("deals"), Some(id)] if !id.is_empty() => (&["GET", "HEAD"][..], Some(id)),
        _ => return Some(404),
    };
    if request.method() == Method::OPTIONS {
        return Some(204);
    }
    if !methods.contains(&request.method().as_str()) {
        return Some(405);
    }
    if values(request, "x-service-key") != [KEY.as_bytes()] {
        return Some(401);
    }
    if deal.is_none() {
        let [media_type] = values(request, "content-type")[..] else {
            return Some(415);
        };
        let essence = media_type.split(|byte| *byte == b';').next().unwrap();
        if !essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"application/json")
        {
            return Some(415);
        }
        if request.headers().contains_key(header::CONTENT_ENCODING) {
            return Some(415);
        }
    }
    match values(request, header::CONTENT_LENGTH.as_str())[..] {
        _ if request.body().len() > MAX_BODY => return Some(413),
        [] => {}
        // An HTTP library refuses a head whose length is not a number, or not that of the body.
        [length] => {
            let length = std::str::from_utf8(length).ok()?.parse::<u64>().ok()?;
            if length > MAX_BODY as u64 {
                return Some(413);
            }
        }
        _ => return None,
    }
    match deal {
        Some("d_1" | "d_2" | "d_3") => Some(200),
        Some(_) => Some(404),
        None if !json::is_strict(request.body()) => Some(400),
        // `create_agent` tests which of the two it is.
        None => None,
    }
}

/// Escapes decoded once; an invalid escape stands for itself. `None` when the result is not UTF-8.
fn decoded(segment: &str) -> Option<String> {
    let mut left = segment.as_bytes();
    let mut bytes = Vec::new();
    while let [first, rest @ ..] = left {
        let hex = |byte: &u8| char::from(*byte).to_digit(16);
        match rest {
            [high, low, after @ ..]
                if *first == b'%' && hex(high).is_some() && hex(low).is_some() =>
            {
                let value = hex(high)? * 16 + hex(low)?;
                bytes.push(u8::try_from(value).ok()?);
                left = after;
            }
            _ => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    String::from_utf8(bytes).ok()
}
