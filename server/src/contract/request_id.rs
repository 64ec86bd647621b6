//! The id that every response carries in `x-request-id`.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dealkit::wire;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header name, parsed once: looking up a string would parse it each time.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::REQUEST_ID_HEADER);

/// The longest id that is accepted from a caller.
const MAX_LEN: usize = 128;

/// Names one request: in the response's header, in an error's body and in the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The caller's own id, if it sent exactly one of 1 to 128 visible ASCII characters; otherwise a fresh one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(&HEADER).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) if is_sane(id.as_bytes()) => Self(id.clone()),
            _ => Self::fresh(),
        }
    }

    /// An id that this process has not used, and that two processes share only by great coincidence.
    fn fresh() -> Self {
        static PROCESS: LazyLock<String> = LazyLock::new(|| {
            let random = RandomState::new().hash_one("request");
            format!("req_{random:016x}_")
        });
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = PROCESS.clone() + &number.to_string();
        // Letters, digits and underscores always make a valid header value.
        Self(HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("req_0")))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_sane(id: &[u8]) -> bool {
    (1..=MAX_LEN).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}
