//! What the server saw: its latest requests of /v1, and what became of each.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use dealkit::wire;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

use crate::{contract::route, sandbox::access::TOKEN_HEADER, state::page::Room};

/// How many requests are kept.
const MAX_ENTRIES: usize = 1_000;

/// How many bytes of requests are kept: paths, headers and bodies together.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How much of one body is kept.
const MAX_BODY: usize = 1024 * 1024;

/// Headers whose values are secrets.
const SECRETS: [&str; 5] = [
    wire::SERVICE_KEY_HEADER,
    TOKEN_HEADER,
    "authorization",
    "proxy-authorization",
    "cookie",
];

/// What stands in place of a secret.
const REDACTED: HeaderValue = HeaderValue::from_static("<redacted>");

/// A request that the server saw.
///
/// `Debug` shows neither headers nor body: they may be personal.
#[derive(Clone)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Counts all requests, from 1. Requests that are no longer kept leave a gap only at the beginning.
    pub number: u64,
    /// When it arrived.
    pub at: SystemTime,
    /// The method.
    pub method: Method,
    /// The path as it was sent, such as `/v1/deals/d_1`.
    pub path: String,
    /// The part of the target after the question mark.
    pub query: Option<String>,
    /// The headers as they were sent. Those with secrets (`x-service-key`, `authorization`, `cookie` and the like)
    /// hold `<redacted>`.
    pub headers: HeaderMap,
    /// The body: of a very long one, the first MiB. Empty if the server responded without reading it.
    pub body: Bytes,
    /// How long the body was, in bytes.
    pub body_bytes: u64,
    /// The status of the response, or `None` if none was sent: not yet, or because the connection was cut first.
    pub status: Option<StatusCode>,
    /// The time from the request's head to the response, which has yet to be sent.
    pub duration: Duration,
    /// The id of the request, which the response carried in `x-request-id`.
    pub request_id: String,
    /// The fault that happened to it, as the header `x-sandbox-fault` writes it.
    pub fault: Option<String>,
}

impl RecordedRequest {
    /// The path with placeholders, such as `/v1/deals/{id}`, which names nobody. `(unknown)` where there is nothing.
    pub fn path_template(&self) -> &'static str {
        route::template(&self.path)
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedRequest")
            .field("number", &self.number)
            .field("method", &self.method)
            .field("path_template", &self.path_template())
            .field("status", &self.status)
            .field("duration", &self.duration)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl RecordedRequest {
    /// A request that arrived at `at`. It has no number yet, and no response.
    ///
    /// The headers go on sharing the memory that hyper read them into: copying them would cost each request more than
    /// all that the server does for it.
    pub(crate) fn new(
        at: SystemTime,
        method: &Method,
        target: &Uri,
        mut headers: HeaderMap,
        body: &[u8],
    ) -> Self {
        for (name, value) in &mut headers {
            if SECRETS.contains(&name.as_str()) {
                *value = REDACTED;
            }
        }
        // Over HTTP/2 the host is part of the target.
        if let Some(host) = target.authority()
            && !headers.contains_key(header::HOST)
            && let Ok(host) = HeaderValue::from_str(host.as_str())
        {
            headers.insert(header::HOST, host);
        }
        Self {
            number: 0,
            at,
            method: method.clone(),
            path: target.path().to_owned(),
            query: target.query().map(str::to_owned),
            headers,
            body: Bytes::copy_from_slice(body.get(..MAX_BODY).unwrap_or(body)),
            body_bytes: body.len() as u64,
            status: None,
            duration: Duration::ZERO,
            request_id: String::new(),
            fault: None,
        }
    }

    /// About how much memory it takes, whatever becomes of it later.
    fn size(&self) -> usize {
        /// What hyper reads into at first; it doubles that until a head fits.
        const BUFFER: usize = 8 * 1024;
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
        let head = 2 * (headers.sum::<usize>() + self.path.len() + length(&self.query));
        BUFFER.max(head) + self.body.len() + length(&self.fault)
    }
}

/// The latest requests.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    recorded: u64,
    bytes: usize,
    requests: VecDeque<RecordedRequest>,
}

impl Journal {
    /// Records a request, and returns its number.
    pub(crate) fn record(&self, mut request: RecordedRequest) -> u64 {
        let mut kept = self.lock();
        kept.recorded += 1;
        request.number = kept.recorded;
        kept.bytes += request.size();
        kept.requests.push_back(request);
        while kept.bytes > MAX_BYTES || kept.requests.len() > MAX_ENTRIES {
            let Some(oldest) = kept.requests.pop_front() else {
                break;
            };
            kept.bytes -= oldest.size();
        }
        kept.recorded
    }

    /// Adds what became of a request to its record. It may be so old that it is gone.
    pub(crate) fn amend(&self, number: u64, change: impl FnOnce(&mut RecordedRequest)) {
        let mut kept = self.lock();
        let found = kept
            .requests
            .binary_search_by_key(&number, |kept| kept.number);
        if let Ok(index) = found
            && let Some(request) = kept.requests.get_mut(index)
        {
            change(request);
        }
    }

    /// The requests that are kept, in the order of their responses; a delayed one is placed by its arrival.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Those that come after the one of this number and `pass`, as many as there is room for, and the number of the last
    /// one if there are more.
    pub(crate) fn page(
        &self,
        after: u64,
        room: Room,
        pass: impl Fn(&RecordedRequest) -> bool,
    ) -> (Vec<RecordedRequest>, Option<u64>) {
        let kept = self.lock();
        let found = kept.requests.iter();
        let found = found.filter(|request| request.number > after && pass(request));
        let (page, is_more) = room.fill(found, |request| request.size());
        let next = page.last().filter(|_| is_more).map(|last| last.number);
        (page.into_iter().cloned().collect(), next)
    }

    pub(crate) fn clear(&self) {
        let mut kept = self.lock();
        kept.requests.clear();
        kept.bytes = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const ALL: Room = Room {
        entries: usize::MAX,
        bytes: usize::MAX,
    };

    fn seen(target: &str, body: &[u8]) -> RecordedRequest {
        let request = Request::post(target)
            .header("x-service-key", "secret")
            .header("authorization", "Bearer secret")
            .header("cookie", "secret")
            .header("x-sandbox-token", "secret")
            .header("x-tenant", "7")
            .header("x-tenant", "a: b");
        let (head, ()) = request.body(()).unwrap().into_parts();
        RecordedRequest::new(
            SystemTime::now(),
            &head.method,
            &head.uri,
            head.headers,
            body,
        )
    }

    #[test]
    fn a_request_is_kept_as_it_came_without_its_secrets() {
        let journal = Journal::default();
        journal.record(seen("http://h/v1/agents?a=b?c", b"{}"));
        let [seen] = journal.requests().try_into().unwrap();
        assert_eq!(
            (seen.number, seen.method.as_str(), seen.path.as_str()),
            (1, "POST", "/v1/agents")
        );
        assert_eq!(seen.query.as_deref(), Some("a=b?c"));
        assert_eq!((&seen.body[..], seen.body_bytes), (&b"{}"[..], 2));
        let tenants: Vec<_> = seen.headers.get_all("x-tenant").iter().collect();
        assert_eq!(tenants, ["7", "a: b"]);
        for name in [
            "x-service-key",
            "authorization",
            "cookie",
            "x-sandbox-token",
        ] {
            assert_eq!(seen.headers[name], "<redacted>", "{name}");
        }
        let shown = format!("{seen:?} {journal:?}");
        assert!(
            !shown.contains("secret") && !shown.contains("tenant"),
            "{shown}"
        );
    }

    #[test]
    fn what_became_of_a_request_is_added_unless_it_is_gone() {
        let journal = Journal::default();
        let number = journal.record(seen("/v1/agents", b""));
        let amend = || journal.amend(number, |request| request.status = Some(StatusCode::OK));
        amend();
        assert_eq!(journal.requests()[0].status, Some(StatusCode::OK));
        journal.clear();
        amend();
        assert!(journal.requests().is_empty());
        journal.record(seen("/v1/agents", b""));
        amend();
        let next = &journal.requests()[0];
        assert_eq!((next.number, next.status), (2, None));
    }

    #[test]
    fn the_latest_are_kept_within_bounds() {
        let journal = Journal::default();
        for number in 0..MAX_ENTRIES + 10 {
            journal.record(seen(&format!("/v1/deals/{number}"), b""));
        }
        let requests = journal.requests();
        assert_eq!(
            (requests.len(), requests[0].path.as_str()),
            (MAX_ENTRIES, "/v1/deals/10")
        );
        for _ in 0..20 {
            journal.record(seen("/v1/agents", &vec![b' '; MAX_BODY + 5]));
        }
        let requests = journal.requests();
        let bytes: usize = requests.iter().map(RecordedRequest::size).sum();
        assert!(requests.len() < 20 && bytes <= MAX_BYTES, "{bytes}");
        assert_eq!(journal.lock().bytes, bytes);
        assert_eq!(
            (requests[0].body.len(), requests[0].body_bytes),
            (MAX_BODY, MAX_BODY as u64 + 5)
        );
    }

    #[test]
    fn it_is_read_in_pages() {
        let journal = Journal::default();
        for number in 0..10 {
            journal.record(seen(&format!("/v1/deals/{number}?q"), b""));
        }
        let page = |after, room: Room| {
            let pass = |request: &RecordedRequest| request.path != "/v1/deals/4";
            let (page, next) = journal.page(after, room, pass);
            let numbers = page.into_iter().map(|seen| seen.number);
            (numbers.collect::<Vec<_>>(), next)
        };
        let two = Room { entries: 2, ..ALL };
        assert_eq!(page(0, two), (vec![1, 2], Some(2)));
        assert_eq!(page(3, two), (vec![4, 6], Some(6)));
        assert_eq!(page(8, two), (vec![9, 10], None));
        let small = Room { bytes: 1, ..ALL };
        assert_eq!(page(8, small), (vec![9], Some(9)));
        assert_eq!(page(9, small), (vec![10], None));
        assert_eq!(page(10, ALL), (vec![], None));
    }
}
