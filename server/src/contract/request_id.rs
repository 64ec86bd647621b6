//! The id that every response carries in `x-request-id`. It names one request: in the response's header, in an error's body
//! and in the access log.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dealkit::internal::wire;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header name, parsed once: looking up a string would parse it each time.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::REQUEST_ID_HEADER);

/// The longest id that is accepted from a caller.
const MAX_LEN: usize = 128;

/// The caller's own id, if it sent exactly one of 1 to 128 visible ASCII characters; otherwise a fresh one.
pub(crate) fn of(headers: &HeaderMap) -> HeaderValue {
    let mut sent = headers.get_all(&HEADER).iter();
    match (sent.next(), sent.next()) {
        (Some(id), None)
            if (1..=MAX_LEN).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic) =>
        {
            id.clone()
        }
        _ => fresh(),
    }
}

/// An id that this process has not used, and that two processes share only by great coincidence.
fn fresh() -> HeaderValue {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("request"));
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let id = format!("req_{:016x}_{number}", *PROCESS);
    // Letters, digits and underscores always make a valid header value.
    HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("req_0"))
}
