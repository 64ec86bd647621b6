//! A response of whatever status, as it came.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};

use crate::{redact::Redactor, wire};

/// A whole response, whatever its status.
#[derive(Clone)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether there was more of the body than was read.
    pub(crate) is_cut: bool,
    /// How many times the request was sent to get it.
    pub(crate) attempts: u32,
    /// Whatever is shown of the response goes through it.
    pub(crate) redactor: Redactor,
}

impl HttpResponse {
    /// The request id that the headers carry.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(wire::REQUEST_ID_HEADER)?.to_str().ok()
    }
}
