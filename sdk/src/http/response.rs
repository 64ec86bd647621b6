//! A response with any status, as it was received.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};

use crate::{contract::wire, error::redact::Redactor};

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
}

impl HttpResponse {
    /// The request id that the headers carry.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(wire::REQUEST_ID_HEADER)?.to_str().ok()
    }
}
