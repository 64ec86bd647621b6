//! Any request that an HTTP library can hand to the server.

use bytes::Bytes;
use dealkit_server::{SeedDeal, Service};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};

use crate::sandbox::{self, KEY};

const MAX_BODY: usize = 512;

/// Sends any bytes as a request: `METHOD TARGET VERSION`, lines of `name: value`, an empty line, the body. The value `{key}` stands
/// for the right key. Parts that the `http` crate rejects are left out.
pub fn request(data: &[u8]) {
    thread_local! {
        static SERVICES: (Service, Service) = (
            sandbox::service(SeedDeal::samples(), |builder| builder.max_body_bytes(MAX_BODY)),
            sandbox::service(SeedDeal::samples(), |builder| {
                builder.max_body_bytes(MAX_BODY).max_agents(0)
            }),
        );
    }
    if let Some(request) = parse(data) {
        SERVICES.with(|(service, full)| check_response(&request, service, full));
    }
}

fn parse(data: &[u8]) -> Option<Request<Bytes>> {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((data, &[][..]), |end| (&data[..end], &data[end + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut parts = lines.next()?.split(|byte| *byte == b' ');
    let method = Method::from_bytes(parts.next()?).ok()?;
    let uri = Uri::try_from(parts.next()?).ok()?;
    let version = match parts.next() {
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

fn check_response(request: &Request<Bytes>, service: &Service, full: &Service) {
    let response = service.handle(request.clone());
    let is_head = request.method() == Method::HEAD;
    let status = sandbox::check(&response, is_head);

    // The response repeats the request's id exactly if it is valid.
    let id = sandbox::header(response.headers(), "x-request-id").unwrap();
    let sent: Vec<_> = request.headers().get_all("x-request-id").iter().collect();
    if let [sent] = sent[..] {
        let sent = sent.as_bytes();
        let sane = (1..=128).contains(&sent.len()) && sent.iter().all(u8::is_ascii_graphic);
        assert_eq!(sane, id.as_bytes() == sent);
    }

    // No error response repeats the key, unless it is the request id.
    if status >= 400 && id != KEY {
        assert!(!String::from_utf8_lossy(response.body()).contains(KEY));
    }
    match status {
        200 => assert!(is_head || *request.method() == Method::GET),
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
        let length = sandbox::header(response.headers(), "content-length").unwrap();
        if id.starts_with("req_") {
            // A fresh request id may be a digit longer than the last one.
            let difference = length.parse::<usize>().unwrap().abs_diff(get.body().len());
            assert!(difference <= 1);
        } else {
            assert_eq!(length, get.body().len().to_string());
        }
    }

    // A full store changes only the response to a create.
    let by_full = sandbox::check(&full.handle(request.clone()), is_head);
    assert_eq!(by_full, if status == 201 { 507 } else { status });
}
