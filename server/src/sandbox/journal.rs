//! The journal: the latest requests to /v1 and their responses.

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
    sandbox::{access::TOKEN_HEADER, request_pattern::RequestParts},
    state::memory_budget::{MemoryBudget, Reservation},
};

const MAX_ENTRIES: usize = 1_000;

/// Maximum size of a journal: paths, headers and bodies.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum length of a recorded body. The rest is dropped.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Number of recent changes whose requests are remembered. A caller that waits, and has missed more changes than
/// this, examines all requests.
const REMEMBERED_CHANGES: usize = 64;

/// Headers with secret values.
const SECRET_HEADERS: [&str; 5] = [
    wire::SERVICE_KEY_HEADER,
    TOKEN_HEADER,
    "authorization",
    "proxy-authorization",
    "cookie",
];

/// Returns true if the journal redacts the header with this name.
pub(crate) fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.contains(&name)
}

const REDACTED: HeaderValue = HeaderValue::from_static("<redacted>");

/// A recorded request to /v1.
///
/// `Debug` omits the path, headers and body, which may contain personal data. [`Service::fail_next`](crate::Service::fail_next)
/// has an example. serde serializes it as the control interface does.
#[derive(Clone, Serialize)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The number of the request, from 1, counting all requests. The journal drops the oldest requests first.
    pub number: u64,
    /// The time of arrival.
    pub at: DateTime<Utc>,
    /// The method.
    #[serde(with = "http_serde::method")]
    pub method: Method,
    /// The path, such as `/v1/deals/d_1`, still encoded.
    pub path: String,
    /// The part of the target after the question mark.
    pub query: Option<String>,
    /// The headers. Those with secrets (`x-service-key`, `authorization`, `cookie` and the like) have the value
    /// `<redacted>`.
    #[serde(with = "http_serde::header_map")]
    pub headers: HeaderMap,
    /// The body, or its first MiB if it is longer. Empty if the server responded without reading the body.
    #[serde(serialize_with = "serialize_body")]
    pub body: Bytes,
    /// The length of the whole body, in bytes.
    pub body_bytes: u64,
    /// The status of the response, or `None` if none was sent: not yet, or because the connection was cut first.
    #[serde(with = "http_serde::option::status_code")]
    pub status: Option<StatusCode>,
    /// The time from the arrival of the head until the response is ready to be sent.
    #[serde(serialize_with = "serialize_seconds")]
    pub duration: Duration,
    /// The id of the request, which the response carried in `x-request-id`.
    pub request_id: String,
    /// The fault that was applied, as a value of the header `x-sandbox-fault`, without a body.
    pub fault: Option<String>,
    /// True while the request waits for [`Service::release`](crate::Service::release).
    #[serde(rename = "held")]
    pub is_held: bool,
    /// True after the response, or after the connection was cut.
    #[serde(rename = "done")]
    pub(crate) is_done: bool,
}

/// Serializes a body as a string. Bytes that are not UTF-8 become replacement characters.
fn serialize_body<S: Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(body))
}

fn serialize_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
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
    /// Returns the path with placeholders, such as `/v1/deals/{id}`, which contains no personal data. `(unknown)` for an
    /// unknown path.
    pub fn path_template(&self) -> &'static str {
        route::path_template(&self.path)
    }

    /// Returns the parts that a pattern examines.
    pub(crate) fn parts(&self) -> RequestParts<'_> {
        RequestParts {
            method: &self.method,
            path: &self.path,
            headers: &self.headers,
            body: Some(&self.body),
        }
    }

    /// Creates an entry without a number and a response.
    ///
    /// The headers keep sharing hyper's buffer: copying them would take longer than all other work for a request.
    pub(crate) fn new(
        at: SystemTime,
        method: &Method,
        target: &Uri,
        mut headers: HeaderMap,
        body: &[u8],
    ) -> Self {
        for (name, value) in &mut headers {
            if is_secret_header(name.as_str()) {
                *value = REDACTED;
            }
        }
        // Over HTTP/2, the target contains the host.
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
            body: Bytes::copy_from_slice(body.get(..MAX_BODY_BYTES).unwrap_or(body)),
            body_bytes: body.len() as u64,
            status: None,
            duration: Duration::ZERO,
            request_id: String::new(),
            fault: None,
            is_held: false,
            is_done: false,
        }
    }

    /// Estimates the memory of the entry.
    fn estimated_size(&self) -> usize {
        /// hyper's initial read buffer, which it doubles until a head fits.
        const BUFFER: usize = 8 * 1024;
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
        let head = 2 * (headers.sum::<usize>() + self.path.len() + length(&self.query));
        BUFFER.max(head) + self.body.len() + length(&self.fault)
    }
}

/// A wait for requests timed out.
#[derive(Debug, thiserror::Error)]
#[error("{found} of {count} requests arrived in time")]
pub struct WaitTimeout {
    found: usize,
    count: usize,
}

#[derive(Debug)]
pub(crate) struct Journal {
    entries: Mutex<Entries>,
    /// Wakes the callers that wait for requests.
    change_notify: Notify,
}

#[derive(Debug)]
struct Entries {
    recorded_count: u64,
    /// The number of changes so far: requests recorded or updated.
    change_count: u64,
    /// The numbers of the recently changed requests, so that thousands of waiting callers need not examine all requests.
    recent_changes: VecDeque<u64>,
    /// The budget of this journal, and the budget shared by all journals.
    budgets: [MemoryBudget; 2],
    requests: VecDeque<(RecordedRequest, [Reservation; 2])>,
}

impl Journal {
    pub(crate) fn new(shared: &MemoryBudget) -> Self {
        Self {
            entries: Mutex::new(Entries {
                recorded_count: 0,
                change_count: 0,
                recent_changes: VecDeque::new(),
                budgets: [MemoryBudget::new(MAX_BYTES), shared.clone()],
                requests: VecDeque::new(),
            }),
            change_notify: Notify::new(),
        }
    }

    /// Adds a request, and returns its number. Drops the oldest requests if the journal is full.
    pub(crate) fn record(&self, mut request: RecordedRequest) -> u64 {
        let mut entries = self.entries.lock();
        entries.recorded_count += 1;
        request.number = entries.recorded_count;
        let size = request.estimated_size();
        loop {
            let [own, shared] = &entries.budgets;
            if entries.requests.len() < MAX_ENTRIES
                && let (Some(own), Some(shared)) = (own.reserve(size), shared.reserve(size))
            {
                entries.requests.push_back((request, [own, shared]));
                break;
            }
            if entries.requests.pop_front().is_none() {
                break;
            }
        }
        let number = entries.recorded_count;
        entries.record_change(number);
        self.change_notify.notify_waiters();
        number
    }

    /// Updates a request, unless the journal has dropped it.
    pub(crate) fn update(&self, number: u64, change: impl FnOnce(&mut RecordedRequest)) {
        let mut entries = self.entries.lock();
        let search_result = entries
            .requests
            .binary_search_by_key(&number, |(request, _)| request.number);
        if let Ok(index) = search_result
            && let Some((request, _)) = entries.requests.get_mut(index)
        {
            change(request);
            entries.record_change(number);
            self.change_notify.notify_waiters();
        }
    }

    /// Returns up to `count` requests that satisfy `matches`, in the order in which they were recorded. A request is recorded when
    /// its response is ready or its connection is cut. A held or delayed request is recorded on arrival.
    pub(crate) fn find(
        &self,
        count: usize,
        matches: impl Fn(&RecordedRequest) -> bool,
    ) -> Vec<RecordedRequest> {
        let entries = self.entries.lock();
        entries
            .find_matching(&matches)
            .take(count)
            .cloned()
            .collect()
    }

    pub(crate) fn clear(&self) {
        self.entries.lock().requests.clear();
    }

    /// Waits until the journal contains `count` requests that satisfy `matches`.
    ///
    /// Thousands of callers may wait. Each caller therefore examines only the requests that have changed since its last check. It
    /// counts all requests again only if enough of the changed requests match.
    pub(super) async fn wait_until_recorded(
        &self,
        count: usize,
        matches: impl Fn(&RecordedRequest) -> bool,
    ) {
        let mut progress = WaitProgress::default();
        loop {
            // The wait is registered before the check, so that no change is missed.
            let change = self.change_notify.notified();
            if self
                .entries
                .lock()
                .has_enough(count, &matches, &mut progress)
            {
                return;
            }
            change.await;
        }
    }

    /// Waits until `count` requests satisfy `matches`, and returns all requests that satisfy `matches`.
    pub(crate) async fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        matches: impl Fn(&RecordedRequest) -> bool,
    ) -> Result<Vec<RecordedRequest>, WaitTimeout> {
        let find = || self.find(usize::MAX, &matches);
        let enough_requests = async {
            loop {
                self.wait_until_recorded(count, &matches).await;
                // The journal may have dropped one of these requests in the meantime.
                let found = find();
                if found.len() >= count {
                    return found;
                }
            }
        };
        let wait_result = timeout(limit, enough_requests).await;
        wait_result.map_err(|_| WaitTimeout {
            found: find().len(),
            count,
        })
    }
}

/// The state of a wait for requests.
#[derive(Debug, Default)]
struct WaitProgress {
    /// The number of changes, and of missing requests, at the last check. `None` before the first one.
    last_check: Option<(u64, usize)>,
}

impl Entries {
    fn record_change(&mut self, number: u64) {
        self.change_count += 1;
        if self.recent_changes.len() == REMEMBERED_CHANGES {
            self.recent_changes.pop_front();
        }
        self.recent_changes.push_back(number);
    }

    fn find_matching(
        &self,
        matches: impl Fn(&RecordedRequest) -> bool,
    ) -> impl Iterator<Item = &RecordedRequest> {
        let requests = self.requests.iter().map(|(request, _)| request);
        requests.filter(move |request| matches(request))
    }

    /// Returns true if `count` requests satisfy `matches`.
    fn has_enough(
        &self,
        count: usize,
        matches: impl Fn(&RecordedRequest) -> bool,
        progress: &mut WaitProgress,
    ) -> bool {
        if let Some((change_count, missing)) = &mut progress.last_check {
            let new_changes =
                usize::try_from(self.change_count - *change_count).unwrap_or(usize::MAX);
            if let Some(first_new) = self.recent_changes.len().checked_sub(new_changes) {
                let changed_numbers = self.recent_changes.range(first_new..);
                let matching_numbers = changed_numbers
                    .filter(|number| self.find_request(**number).is_some_and(&matches));
                // Each changed request adds at most one match.
                *missing = missing.saturating_sub(matching_numbers.count());
                *change_count = self.change_count;
                if *missing > 0 {
                    return false;
                }
            }
        }
        let match_count = self.find_matching(matches).take(count).count();
        progress.last_check = Some((self.change_count, count - match_count));
        match_count == count
    }

    fn find_request(&self, number: u64) -> Option<&RecordedRequest> {
        let index = self
            .requests
            .binary_search_by_key(&number, |(request, _)| request.number);
        let (request, _) = self.requests.get(index.ok()?)?;
        Some(request)
    }
}
