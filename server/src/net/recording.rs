//! One request on its way into the journal and the access log, where it is recorded once, whatever becomes of it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use tokio::time::Instant;

use crate::{
    contract::request_id,
    net::access_log::AccessLog,
    sandbox::{fault::Play, journal::Seen},
    service::{self, Service},
};

/// A request that is being answered. If it is dropped first, because its caller went away, it is recorded all the same.
#[derive(Debug)]
pub(crate) struct Recording<'s> {
    service: &'s Service,
    log: &'s AccessLog,
    pub(crate) began: Instant,
    pub(crate) head: Parts,
    /// The body, as far as it was read.
    pub(crate) body: Bytes,
    /// The fault that happens to it.
    pub(crate) fault: Option<Arc<Play>>,
    /// Its number in the journal, once it is there.
    number: Option<u64>,
    is_done: bool,
}

impl<'s> Recording<'s> {
    pub(crate) fn begin(service: &'s Service, log: &'s AccessLog, head: Parts) -> Self {
        Self {
            service,
            log,
            began: Instant::now(),
            fault: service.fault(&head),
            head,
            body: Bytes::new(),
            number: None,
            is_done: false,
        }
    }

    /// Makes the journal show the request although there is no response yet.
    pub(crate) fn announce(&mut self) {
        if !service::is_admin(&self.head) {
            let request_id = self.head.headers.get(&request_id::HEADER);
            let request_id = request_id.map_or(&b""[..], |id| id.as_bytes());
            self.number = Some(self.service.journal().record(&self.seen(None, request_id)));
        }
    }

    /// Records that this is the response.
    pub(crate) fn responded(&mut self, response: &Response<Bytes>) {
        self.record(
            Some(response.status()),
            response.headers().get(&request_id::HEADER),
        );
    }

    /// Records that there is no response. `lost` is the one that there would have been, if any.
    pub(crate) fn lost(&mut self, lost: Option<&Response<Bytes>>) {
        let request_id = lost.and_then(|lost| lost.headers().get(&request_id::HEADER));
        self.record(None, request_id);
    }

    fn record(&mut self, status: Option<StatusCode>, request_id: Option<&http::HeaderValue>) {
        self.is_done = true;
        let request_id = request_id
            .or_else(|| self.head.headers.get(&request_id::HEADER))
            .map_or(&b""[..], |id| id.as_bytes());
        if !self.is_look(status) {
            self.log
                .record(&self.head, status, request_id, self.began.elapsed());
        }
        match self.number {
            Some(number) => self.service.journal().amend(number, status, request_id),
            None if service::is_admin(&self.head) => {}
            None => {
                self.service
                    .journal()
                    .record(&self.seen(status, request_id));
            }
        }
    }

    /// Whether somebody merely looked at the sandbox: its page does so all the time, and what programs do would be
    /// buried in the log.
    fn is_look(&self, status: Option<StatusCode>) -> bool {
        service::is_admin(&self.head)
            && matches!(self.head.method, Method::GET | Method::HEAD)
            && status == Some(StatusCode::OK)
    }

    fn seen<'r>(&'r self, status: Option<StatusCode>, request_id: &'r [u8]) -> Seen<'r> {
        Seen {
            began: self.began,
            head: &self.head,
            body: &self.body,
            status,
            request_id,
            fault: self.fault.as_ref(),
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.lost(None);
        }
    }
}
