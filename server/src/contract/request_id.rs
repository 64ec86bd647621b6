//! Request ids. The id of a request is in its response's header `x-request-id`, in error bodies and in the access log.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dealkit::internal::wire;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The name of the header that contains the request id, parsed once instead of on each lookup.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::REQUEST_ID_HEADER);

/// Maximum length of a client's request id.
const MAX_LEN: usize = 128;

/// Returns the request id that the client sent, if it sent exactly one, of 1 to 128 visible ASCII characters. Otherwise
/// generates an id.
pub(crate) fn from_headers_or_new(headers: &HeaderMap) -> HeaderValue {
    let mut client_ids = headers.get_all(&HEADER).iter();
    match (client_ids.next(), client_ids.next()) {
        (Some(id), None)
            if (1..=MAX_LEN).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic) =>
        {
            id.clone()
        }
        _ => generate_id(),
    }
}

/// Generates an id that is unique in this process, and very probably among processes.
fn generate_id() -> HeaderValue {
    static PROCESS_TAG: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("request"));
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let id = format!("req_{:016x}_{number}", *PROCESS_TAG);
    // Letters, digits and underscores are always a valid header value.
    HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("req_0"))
}
