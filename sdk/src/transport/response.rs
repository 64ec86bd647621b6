//! An HTTP response as it was received, with any status.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};

use crate::{
    specification::wire,
    transport::{
        redact::{Redactor, shorten},
        retry::retry_after::parse_retry_after,
    },
};

#[derive(Clone)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The number of attempts, including the attempt that got this response.
    pub(crate) attempts: u32,
    pub(crate) redactor: Redactor,
    /// The time that was left when the response had arrived.
    pub(crate) time_left: TimeLeft,
}

/// The rest of a call's time, for decoding the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLeft {
    pub(crate) time: Duration,
    /// The timeout, as the caller set it.
    pub(crate) limit: Duration,
}

impl HttpResponse {
    /// Returns an empty response for a test, with unlimited time to decode it.
    #[cfg(feature = "test-util")]
    pub(crate) fn for_test() -> Self {
        Self {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            attempts: 1,
            redactor: Redactor::default(),
            time_left: TimeLeft {
                time: Duration::MAX,
                limit: Duration::MAX,
            },
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        parse_retry_after(&self.headers)
    }

    /// Returns a function for the decoder, which returns true while there is time left. The time counts from now, because the
    /// response may have waited before it is decoded.
    pub(crate) fn is_in_time(&self) -> impl Fn() -> bool + use<> {
        let (start, left) = (Instant::now(), self.time_left.time);
        move || start.elapsed() < left
    }

    /// Returns the request id in the headers, masked and shortened for display: a service may put a key or a line break into it.
    pub(crate) fn shown_request_id(&self) -> Option<String> {
        self.request_id().map(|id| shorten(&self.redactor.mask(id)))
    }

    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(wire::REQUEST_ID_HEADER)?.to_str().ok()
    }
}
