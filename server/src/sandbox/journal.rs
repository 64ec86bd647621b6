//! What the server saw: its latest requests of /v1, and what became of each.
//!
//! Every request is recorded, so recording one must cost next to nothing: the bytes that are kept are copied into the
//! memory of the oldest entry, and everything else waits until somebody looks. (Keeping hyper's own bytes would avoid
//! the copy, but hold on to its whole buffers, which are a hundred times as large as what was sent.)

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use dealkit::wire;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use tokio::time::Instant;

use crate::sandbox::{access::TOKEN_HEADER, fault::Play};

/// How many requests are kept.
const MAX_ENTRIES: usize = 1_000;

/// How many bytes of requests are kept: paths, headers and bodies together.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How much of one body is kept.
const MAX_BODY: usize = 1024 * 1024;

/// How much memory an entry may have to spare.
const MAX_SPARE: usize = 4 * 1024;

/// What stands in place of a secret.
const REDACTED: &[u8] = b"<redacted>";

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
        crate::contract::route::template(&self.path)
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

/// The latest requests.
#[derive(Debug)]
pub(crate) struct Journal {
    began: (Instant, SystemTime),
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    recorded: u64,
    bytes: usize,
    entries: VecDeque<Entry>,
}

/// A request as it is kept. The bytes are those of the path and query, the headers, the id and the body, one after the
/// other.
struct Entry {
    number: u64,
    at: Instant,
    duration: Duration,
    method: Method,
    status: Option<StatusCode>,
    fault: Option<Arc<Play>>,
    target_end: u32,
    headers_end: u32,
    id_end: u32,
    body_bytes: u64,
    bytes: Vec<u8>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({} bytes)", self.bytes.len())
    }
}

/// The parts of a request that are recorded.
#[derive(Debug)]
pub(crate) struct Seen<'r> {
    pub(crate) began: Instant,
    pub(crate) head: &'r Parts,
    pub(crate) body: &'r [u8],
    pub(crate) status: Option<StatusCode>,
    pub(crate) request_id: &'r [u8],
    pub(crate) fault: Option<&'r Arc<Play>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            began: (Instant::now(), SystemTime::now()),
            ring: Mutex::default(),
        }
    }
}

impl Journal {
    /// Records a request, and returns its number.
    pub(crate) fn record(&self, seen: &Seen<'_>) -> u64 {
        let spare = self.lock().spare();
        // Outside of the lock, so that no thread waits for another's copying.
        let mut entry = Entry::of(seen, spare);
        let mut ring = self.lock();
        let number = ring.recorded + 1;
        entry.number = number;
        ring.recorded = number;
        ring.bytes += entry.bytes.capacity();
        ring.entries.push_back(entry);
        while ring.bytes > MAX_BYTES || ring.entries.len() > MAX_ENTRIES {
            ring.pop();
        }
        number
    }

    /// Adds what became of a request to its record.
    pub(crate) fn amend(&self, number: u64, status: Option<StatusCode>, request_id: &[u8]) {
        let mut ring = self.lock();
        let first = ring.entries.front().map_or(0, |first| first.number);
        let index = number
            .checked_sub(first)
            .and_then(|index| usize::try_from(index).ok());
        let entry = index.and_then(|index| ring.entries.get_mut(index));
        // The request may be so old that it is gone.
        let Some(entry) = entry else { return };
        entry.status = status;
        entry.duration = entry.at.elapsed();
        let old = entry.bytes.capacity();
        entry.set_request_id(request_id);
        let new = entry.bytes.capacity();
        ring.bytes = ring.bytes + new - old;
    }

    /// The requests that are kept, in the order of their responses; a delayed one is placed by its arrival.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        let ring = self.lock();
        ring.entries.iter().map(|entry| self.read(entry)).collect()
    }

    /// At most `limit` of those that come after the one of this number and `pass`, and the number of the last one if
    /// there are more.
    pub(crate) fn page(
        &self,
        after: u64,
        limit: usize,
        pass: impl Fn(&Method, &str, Option<StatusCode>) -> bool,
    ) -> (Vec<RecordedRequest>, Option<u64>) {
        let ring = self.lock();
        let mut found = ring.entries.iter().filter(|entry| {
            let path = entry.target().split('?').next().unwrap_or_default();
            entry.number > after && pass(&entry.method, path, entry.status)
        });
        let page: Vec<_> = found
            .by_ref()
            .take(limit)
            .map(|entry| self.read(entry))
            .collect();
        let next = found.next().and(page.last()).map(|last| last.number);
        (page, next)
    }

    pub(crate) fn clear(&self) {
        let mut ring = self.lock();
        let old = std::mem::take(&mut ring.entries);
        ring.bytes = 0;
        drop(ring);
        drop(old);
    }

    fn read(&self, entry: &Entry) -> RecordedRequest {
        let (began, time) = self.began;
        let (path, query) = match entry.target().split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (entry.target(), None),
        };
        RecordedRequest {
            number: entry.number,
            at: time + entry.at.saturating_duration_since(began),
            method: entry.method.clone(),
            path: path.to_owned(),
            query,
            headers: entry.headers(),
            body: Bytes::copy_from_slice(entry.part(entry.id_end as usize, entry.bytes.len())),
            body_bytes: entry.body_bytes,
            status: entry.status,
            duration: entry.duration,
            request_id: String::from_utf8_lossy(
                entry.part(entry.headers_end as usize, entry.id_end as usize),
            )
            .into_owned(),
            fault: entry.fault.as_ref().map(|fault| fault.to_string()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Memory to write the next entry into: that of the oldest one, once the journal is full.
    fn spare(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.entries.len() >= MAX_ENTRIES {
            bytes = self.pop().unwrap_or_default();
        }
        bytes.clear();
        bytes.shrink_to(MAX_SPARE);
        bytes
    }

    /// Forgets the oldest, and returns its memory.
    fn pop(&mut self) -> Option<Vec<u8>> {
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.bytes.capacity();
        Some(oldest.bytes)
    }
}

impl Entry {
    /// Writes what is kept of a request into `bytes`. It has no number yet.
    fn of(seen: &Seen<'_>, mut bytes: Vec<u8>) -> Self {
        let Parts {
            method,
            uri,
            headers,
            ..
        } = seen.head;
        let target = uri.path_and_query().map_or("", |target| target.as_str());
        let body = seen.body.get(..MAX_BODY).unwrap_or(seen.body);
        // All of it is far shorter: hyper limits what a head holds.
        let end = |bytes: &Vec<u8>| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(target.as_bytes());
        let target_end = end(&bytes);
        // Over HTTP/2 the host is part of the target.
        if let Some(host) = uri
            .authority()
            .filter(|_| !headers.contains_key(header::HOST))
        {
            bytes.extend_from_slice(b"host:");
            bytes.extend_from_slice(host.as_str().as_bytes());
            bytes.push(b'\n');
        }
        for (name, value) in headers {
            // No name contains a colon, and no value a line break.
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.push(b':');
            bytes.extend_from_slice(shown(name, value));
            bytes.push(b'\n');
        }
        let headers_end = end(&bytes);
        // Exactly that much: a vector that grows by itself could have up to half of its memory to spare.
        if body.len() > MAX_SPARE {
            bytes.reserve_exact(seen.request_id.len() + body.len());
        }
        bytes.extend_from_slice(seen.request_id);
        let id_end = end(&bytes);
        bytes.extend_from_slice(body);
        Self {
            number: 0,
            at: seen.began,
            duration: seen.began.elapsed(),
            method: method.clone(),
            status: seen.status,
            fault: seen.fault.cloned(),
            target_end,
            headers_end,
            id_end,
            body_bytes: seen.body.len() as u64,
            bytes,
        }
    }

    fn set_request_id(&mut self, request_id: &[u8]) {
        let id = self.headers_end as usize..self.id_end as usize;
        if self.part(id.start, id.end) == request_id {
            return;
        }
        self.bytes.splice(id.clone(), request_id.iter().copied());
        self.id_end = u32::try_from(id.start + request_id.len()).unwrap_or(u32::MAX);
    }

    fn part(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    fn target(&self) -> &str {
        std::str::from_utf8(self.part(0, self.target_end as usize)).unwrap_or_default()
    }

    fn headers(&self) -> HeaderMap {
        let lines = self.part(self.target_end as usize, self.headers_end as usize);
        let fields = lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at(colon);
            let name = HeaderName::from_bytes(name).ok()?;
            Some((name, HeaderValue::from_bytes(value.get(1..)?).ok()?))
        });
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        headers
    }
}

/// What is kept of a header's value.
fn shown<'v>(name: &HeaderName, value: &'v HeaderValue) -> &'v [u8] {
    match name.as_str() {
        wire::SERVICE_KEY_HEADER
        | TOKEN_HEADER
        | "authorization"
        | "proxy-authorization"
        | "cookie" => REDACTED,
        _ => value.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn record(journal: &Journal, request: &Request<Vec<u8>>, status: Option<u16>) {
        let (head, body) = request.clone().into_parts();
        journal.record(&Seen {
            began: Instant::now(),
            head: &head,
            body: &body,
            status: status.map(|status| StatusCode::from_u16(status).unwrap()),
            request_id: b"req_1",
            fault: Some(&Arc::new(
                Play::from_header(b"status=503; retry_after=1").unwrap(),
            )),
        });
    }

    fn request(target: &str, body: Vec<u8>) -> Request<Vec<u8>> {
        let request = Request::post(target)
            .header("x-service-key", "secret")
            .header("authorization", "Bearer secret")
            .header("cookie", "secret")
            .header("x-sandbox-token", "secret")
            .header("x-tenant", "7")
            .header("x-tenant", "a: b");
        request.body(body).unwrap()
    }

    #[test]
    fn a_request_is_kept_as_it_came_without_its_secrets() {
        let journal = Journal::default();
        record(
            &journal,
            &request("http://h/v1/agents?a=b?c", b"{}".to_vec()),
            Some(503),
        );
        let [seen] = journal.requests().try_into().unwrap();
        assert_eq!(
            (seen.number, seen.method.as_str(), seen.path.as_str()),
            (1, "POST", "/v1/agents")
        );
        assert_eq!(seen.query.as_deref(), Some("a=b?c"));
        assert_eq!((&seen.body[..], seen.body_bytes), (&b"{}"[..], 2));
        assert_eq!(seen.status, Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(seen.request_id, "req_1");
        assert_eq!(seen.fault.as_deref(), Some("status=503; retry_after=1"));
        assert!(seen.at.elapsed().unwrap() < Duration::from_secs(60));
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
        journal.amend(1, None, b"another id");
        let amended = &journal.requests()[0];
        assert_eq!(
            (amended.status, amended.request_id.as_str()),
            (None, "another id")
        );
        assert_eq!(
            (&amended.headers, &amended.body[..]),
            (&seen.headers, &b"{}"[..])
        );
        let length = journal.lock().entries[0].bytes.capacity();
        assert_eq!(journal.lock().bytes, length);
        journal.clear();
        journal.amend(1, None, b"");
        assert!(journal.requests().is_empty());
        record(&journal, &request("/v1/agents", Vec::new()), None);
        journal.amend(1, Some(StatusCode::OK), b"");
        assert_eq!(
            (journal.requests()[0].number, journal.requests()[0].status),
            (2, None)
        );
    }

    #[test]
    fn the_latest_are_kept_within_bounds() {
        let journal = Journal::default();
        for number in 0..MAX_ENTRIES + 10 {
            record(
                &journal,
                &request(&format!("/v1/deals/{number}"), Vec::new()),
                Some(200),
            );
        }
        let requests = journal.requests();
        assert_eq!(
            (requests.len(), requests[0].path.as_str()),
            (MAX_ENTRIES, "/v1/deals/10")
        );
        for _ in 0..20 {
            record(
                &journal,
                &request("/v1/agents", vec![b' '; MAX_BODY + 5]),
                Some(400),
            );
        }
        let requests = journal.requests();
        assert!(
            requests.len() < 20 && journal.lock().bytes <= MAX_BYTES,
            "{}",
            requests.len()
        );
        assert_eq!(
            (requests[0].body.len(), requests[0].body_bytes),
            (MAX_BODY, MAX_BODY as u64 + 5)
        );
    }

    #[test]
    fn it_is_read_in_pages() {
        let journal = Journal::default();
        for number in 0..10 {
            let status = if number % 2 == 0 { 200 } else { 404 };
            record(
                &journal,
                &request(&format!("/v1/deals/{number}?q"), Vec::new()),
                Some(status),
            );
        }
        let page = |after| {
            let (page, next) = journal.page(after, 2, |method, path, status| {
                *method == Method::POST && path != "/v1/deals/4" && status == Some(StatusCode::OK)
            });
            (
                page.into_iter().map(|seen| seen.path).collect::<Vec<_>>(),
                next,
            )
        };
        assert_eq!(
            page(0),
            (vec!["/v1/deals/0".into(), "/v1/deals/2".into()], Some(3))
        );
        assert_eq!(
            page(3),
            (vec!["/v1/deals/6".into(), "/v1/deals/8".into()], None)
        );
        assert_eq!(page(9), (vec![], None));
    }
}
