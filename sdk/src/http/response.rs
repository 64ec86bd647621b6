//! A response with any status, as it was received.

use std::{
    fmt,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};

use crate::{contract::wire, http::redact::Redactor};

/// A whole response, whatever its status.
#[derive(Clone)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether only a part of the body was read.
    pub(crate) is_cut: bool,
    /// How many times the request was sent to get it.
    pub(crate) attempts: u32,
    /// Masks whatever is shown of the response.
    pub(crate) redactor: Redactor,
    /// How much time was left when the response had arrived.
    pub(crate) left: TimeLeft,
}

/// How much of a call's time is left for decoding the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLeft {
    pub(crate) time: Duration,
    /// The limit that determines it, as the caller knows it.
    pub(crate) limit: Duration,
}

impl TimeLeft {
    /// For a response that nobody waits for.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) const UNLIMITED: Self = Self {
        time: Duration::MAX,
        limit: Duration::MAX,
    };
}

impl fmt::Debug for HttpResponse {
    /// Without the headers and the body, which may contain anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl HttpResponse {
    /// Says during decoding whether to go on: it counts from now, so time that the response has waited for its turn
    /// does not matter.
    pub(crate) fn is_in_time(&self) -> impl Fn() -> bool + use<> {
        let (start, left) = (Instant::now(), self.left.time);
        move || start.elapsed() < left
    }

    /// The request id that the headers carry.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(wire::REQUEST_ID_HEADER)?.to_str().ok()
    }
}
