//! A response with any status, as it was received.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};

use crate::{
    specification::wire,
    transport::{
        redact::{Redactor, short},
        retry::retry_after::retry_after,
    },
};

#[derive(Clone)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How many times the request was sent to get it.
    pub(crate) attempts: u32,
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

impl HttpResponse {
    /// A response that no service sent and nobody waits for.
    #[cfg(feature = "test-util")]
    pub(crate) fn by_hand() -> Self {
        Self {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            attempts: 1,
            redactor: Redactor::default(),
            left: TimeLeft {
                time: Duration::MAX,
                limit: Duration::MAX,
            },
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers)
    }

    /// Says during decoding whether to go on: it counts from now, so time that the response has waited for its turn
    /// does not matter.
    pub(crate) fn is_in_time(&self) -> impl Fn() -> bool + use<> {
        let (start, left) = (Instant::now(), self.left.time);
        move || start.elapsed() < left
    }

    /// The request id that the headers carry, in a form that may be shown: it may contain the key or a line break if the
    /// service puts it there.
    pub(crate) fn shown_request_id(&self) -> Option<String> {
        self.request_id().map(|id| short(&self.redactor.mask(id)))
    }

    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(wire::REQUEST_ID_HEADER)?.to_str().ok()
    }
}
