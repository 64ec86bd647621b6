//! What the server saw: its latest requests of /v1, and what became of each.

use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use dealkit::internal::wire;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::{sync::Notify, time::timeout};

use crate::{
    contract::route,
    sandbox::access::TOKEN_HEADER,
    state::room::{Room, Taken},
};

const MAX_ENTRIES: usize = 1_000;

/// How many bytes of requests are kept: paths, headers and bodies together.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

const MAX_BODY: usize = 1024 * 1024;

/// The number of changes that are known one by one. A waiting caller that has missed more looks at all requests.
const LAST_CHANGED: usize = 64;

/// Headers whose values are secrets.
const SECRETS: [&str; 5] = [
    wire::SERVICE_KEY_HEADER,
    TOKEN_HEADER,
    "authorization",
    "proxy-authorization",
    "cookie",
];

const REDACTED: HeaderValue = HeaderValue::from_static("<redacted>");

/// A request that the server saw.
///
/// `Debug` shows neither headers nor body: they may be personal. [`Service::fail_next`](crate::Service::fail_next) has an
/// example. serde writes it as the interface shows it.
#[derive(Clone, Serialize)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Counts all requests, from 1. Requests that are no longer kept leave a gap only at the beginning.
    pub number: u64,
    /// When it arrived.
    pub at: DateTime<Utc>,
    /// The method.
    #[serde(with = "http_serde::method")]
    pub method: Method,
    /// The path as it was sent, such as `/v1/deals/d_1`.
    pub path: String,
    /// The part of the target after the question mark.
    pub query: Option<String>,
    /// The headers as they were sent. Those with secrets (`x-service-key`, `authorization`, `cookie` and the like)
    /// hold `<redacted>`.
    #[serde(with = "http_serde::header_map")]
    pub headers: HeaderMap,
    /// The body: of a very long one, the first MiB. Empty if the server responded without reading it.
    #[serde(serialize_with = "text")]
    pub body: Bytes,
    /// How long the body was, in bytes.
    pub body_bytes: u64,
    /// The status of the response, or `None` if none was sent: not yet, or because the connection was cut first.
    #[serde(with = "http_serde::option::status_code")]
    pub status: Option<StatusCode>,
    /// The time from the request's head to the response, which has yet to be sent.
    #[serde(serialize_with = "seconds")]
    pub duration: Duration,
    /// The id of the request, which the response carried in `x-request-id`.
    pub request_id: String,
    /// The fault that happened to it, as the header `x-sandbox-fault` says it, without a body.
    pub fault: Option<String>,
    /// True while the request waits for [`Service::release`](crate::Service::release).
    #[serde(rename = "held")]
    pub is_held: bool,
    /// Whether nothing more will become of it.
    #[serde(rename = "done")]
    pub(crate) is_done: bool,
}

/// What is not UTF-8 has replacement characters.
fn text<S: Serializer>(body: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&String::from_utf8_lossy(body))
}

fn seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
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
    /// The path with placeholders, such as `/v1/deals/{id}`, which names nobody. `(unknown)` where there is nothing.
    pub fn path_template(&self) -> &'static str {
        route::template(&self.path)
    }

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
            at: at.into(),
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
            is_held: false,
            is_done: false,
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

/// Fewer requests came than a test waited for.
#[derive(Debug, thiserror::Error)]
#[error("{found} of {count} requests came in time")]
pub struct NotSeen {
    found: usize,
    count: usize,
}

#[derive(Debug)]
pub(crate) struct Journal {
    kept: Mutex<Kept>,
    /// Tells those who wait that there is something new.
    changed: Notify,
}

#[derive(Debug)]
struct Kept {
    recorded: u64,
    /// The number of changes so far: requests recorded or amended.
    changes: u64,
    /// The numbers of the requests that changed last, for waiting callers, of which there may be thousands.
    last_changed: VecDeque<u64>,
    /// Its own room, and that which others share.
    rooms: [Room; 2],
    requests: VecDeque<(RecordedRequest, [Taken; 2])>,
}

impl Journal {
    pub(crate) fn new(shared: &Room) -> Self {
        Self {
            kept: Mutex::new(Kept {
                recorded: 0,
                changes: 0,
                last_changed: VecDeque::new(),
                rooms: [Room::new(MAX_BYTES), shared.clone()],
                requests: VecDeque::new(),
            }),
            changed: Notify::new(),
        }
    }

    pub(crate) fn record(&self, mut request: RecordedRequest) -> u64 {
        let mut kept = self.kept.lock();
        kept.recorded += 1;
        request.number = kept.recorded;
        let size = request.size();
        loop {
            let [own, shared] = &kept.rooms;
            if kept.requests.len() < MAX_ENTRIES
                && let (Some(own), Some(shared)) = (own.take(size), shared.take(size))
            {
                kept.requests.push_back((request, [own, shared]));
                break;
            }
            if kept.requests.pop_front().is_none() {
                break;
            }
        }
        let number = kept.recorded;
        kept.record_change(number);
        self.changed.notify_waiters();
        number
    }

    /// Adds what became of a request to its record. It may be so old that it is gone.
    pub(crate) fn amend(&self, number: u64, change: impl FnOnce(&mut RecordedRequest)) {
        let mut kept = self.kept.lock();
        let found = kept
            .requests
            .binary_search_by_key(&number, |(kept, _)| kept.number);
        if let Ok(index) = found
            && let Some((request, _)) = kept.requests.get_mut(index)
        {
            change(request);
            kept.record_change(number);
            self.changed.notify_waiters();
        }
    }

    /// At most `count` of the requests that are kept and pass, in the order of their responses; a delayed one is placed by its
    /// arrival.
    pub(crate) fn filtered(
        &self,
        count: usize,
        passes: impl Fn(&RecordedRequest) -> bool,
    ) -> Vec<RecordedRequest> {
        let kept = self.kept.lock();
        kept.passing(&passes).take(count).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.kept.lock().requests.clear();
    }

    /// Waits until so many of the kept requests pass.
    ///
    /// Thousands may wait, so each looks only at the requests that have changed since it last looked, and counts again only
    /// once enough of them may pass.
    pub(super) async fn wait(&self, count: usize, passes: impl Fn(&RecordedRequest) -> bool) {
        let mut seen = WaitProgress::default();
        loop {
            // From here on, no change is missed.
            let changed = self.changed.notified();
            if self.kept.lock().has_enough(count, &passes, &mut seen) {
                return;
            }
            changed.await;
        }
    }

    /// The wanted requests, once there are so many.
    pub(crate) async fn wait_for(
        &self,
        count: usize,
        within: Duration,
        wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> Result<Vec<RecordedRequest>, NotSeen> {
        let found = || self.filtered(usize::MAX, &wanted);
        let enough = async {
            loop {
                self.wait(count, &wanted).await;
                // One may have been dropped since.
                let found = found();
                if found.len() >= count {
                    return found;
                }
            }
        };
        let waited = timeout(within, enough).await;
        waited.map_err(|_| NotSeen {
            found: found().len(),
            count,
        })
    }
}

/// The state of a wait for requests.
#[derive(Debug, Default)]
struct WaitProgress {
    /// The number of changes so far, and of requests that were missing then. `None` before the first count.
    last: Option<(u64, usize)>,
}

impl Kept {
    fn record_change(&mut self, number: u64) {
        self.changes += 1;
        if self.last_changed.len() == LAST_CHANGED {
            self.last_changed.pop_front();
        }
        self.last_changed.push_back(number);
    }

    fn passing(
        &self,
        passes: impl Fn(&RecordedRequest) -> bool,
    ) -> impl Iterator<Item = &RecordedRequest> {
        let requests = self.requests.iter().map(|(request, _)| request);
        requests.filter(move |request| passes(request))
    }

    /// Returns true if so many requests pass.
    fn has_enough(
        &self,
        count: usize,
        passes: impl Fn(&RecordedRequest) -> bool,
        seen: &mut WaitProgress,
    ) -> bool {
        if let Some((changes, missing)) = &mut seen.last {
            let new = usize::try_from(self.changes - *changes).unwrap_or(usize::MAX);
            if let Some(known) = self.last_changed.len().checked_sub(new) {
                let changed = self.last_changed.range(known..);
                let passing = changed.filter(|number| self.find(**number).is_some_and(&passes));
                // Each of them adds at most one to those that passed before.
                *missing = missing.saturating_sub(passing.count());
                *changes = self.changes;
                if *missing > 0 {
                    return false;
                }
            }
        }
        let found = self.passing(passes).take(count).count();
        seen.last = Some((self.changes, count - found));
        found == count
    }

    fn find(&self, number: u64) -> Option<&RecordedRequest> {
        let at = self
            .requests
            .binary_search_by_key(&number, |(kept, _)| kept.number);
        let (request, _) = self.requests.get(at.ok()?)?;
        Some(request)
    }
}
