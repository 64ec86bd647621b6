//! Constructors of responses.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

pub(crate) fn response(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = empty_response(status);
    *response.body_mut() = body.into();
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response
}

pub(crate) fn empty_response(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}
