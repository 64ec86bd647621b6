//! Records each request once in the journal and the access log, even if its client disconnects.

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, request::Parts};
use tokio::{sync::oneshot::error::RecvError, time::Instant};

use crate::{
    contract::request_id,
    net::access_log::AccessLog,
    sandbox::{journal::RecordedRequest, pending_faults::FaultSelection},
    service::{self, Caller, Service},
};

/// A request in progress. Dropping it without a response records that there was none.
#[derive(Debug)]
pub(crate) struct RequestRecorder<'s> {
    service: &'s Service,
    log: &'s AccessLog,
    pub(crate) start_time: Instant,
    pub(crate) caller: Caller,
    pub(crate) head: Parts,
    /// The body; empty until it has been read.
    pub(crate) body: Bytes,
    pub(crate) selection: FaultSelection,
    /// The request's number in the journal; `None` until the journal has an entry for the request.
    number: Option<u64>,
    is_done: bool,
}

impl<'s> RequestRecorder<'s> {
    /// Starts a request: finds its namespace and selects its fault, unless the fault depends on the body.
    pub(crate) fn start(service: &'s Service, log: &'s AccessLog, head: Parts) -> Self {
        let caller = service.identify_caller(&head);
        Self {
            service,
            log,
            start_time: Instant::now(),
            selection: service.select_fault(&caller, &head, None),
            caller,
            head,
            body: Bytes::new(),
            number: None,
            is_done: false,
        }
    }

    /// Processes the request and returns the operation's response.
    pub(crate) fn process(&self) -> Response<Bytes> {
        self.service.process(&self.caller, &self.head, &self.body)
    }

    /// Completes the response of a fault, without processing the request.
    pub(crate) fn fault_response(&self, response: &Response<Bytes>) -> Response<Bytes> {
        let service = self.service;
        service.fault_response(&self.caller, &self.head, response)
    }

    /// Adds the request to the journal before it has a response.
    pub(crate) fn record_arrival(&mut self) {
        if self.number.is_none() && !service::is_admin_request(&self.head) {
            let mut request = self.new_entry(self.head.headers.clone());
            request.request_id = id_to_string(self.head.headers.get(&request_id::HEADER));
            self.number = Some(self.caller.namespace.journal.record(request));
        }
    }

    /// If a fault holds the request, shows it as held in the journal and waits for its release.
    ///
    /// # Errors
    /// If a reset drops the held request.
    pub(crate) async fn wait_for_release(&mut self) -> Result<(), RecvError> {
        let Some(hold) = self.selection.hold.take() else {
            return Ok(());
        };
        self.record_arrival();
        let namespace = &self.caller.namespace;
        let number = self.number.unwrap_or_default();
        let held = &namespace.faults.held;
        held.wait_for_release(hold, number, &namespace.journal)
            .await
    }

    pub(crate) fn record_response(&mut self, response: &Response<Bytes>) {
        let id = response.headers().get(&request_id::HEADER);
        self.record_end(Some(response.status()), id);
    }

    /// Records that no response is sent. If the request was processed, `lost_response` is its response, which contains the request
    /// id.
    pub(crate) fn record_no_response(&mut self, lost_response: Option<&Response<Bytes>>) {
        let id = lost_response.and_then(|lost| lost.headers().get(&request_id::HEADER));
        self.record_end(None, id);
    }

    /// Records the end of the request, unless it has already been recorded.
    fn record_end(&mut self, status: Option<StatusCode>, request_id: Option<&HeaderValue>) {
        // Requests to the control interface are not recorded: the sandbox's page sends one every two seconds.
        if std::mem::replace(&mut self.is_done, true) || service::is_admin_request(&self.head) {
            return;
        }
        let request_id = id_to_string(request_id.or(self.head.headers.get(&request_id::HEADER)));
        let duration = self.start_time.elapsed();
        self.log.record(&self.head, status, &request_id, duration);
        let finish_entry = |request: &mut RecordedRequest| {
            request.is_done = true;
            request.is_held = false;
            request.status = status;
            request.request_id = request_id;
            request.duration = duration;
        };
        let journal = &self.caller.namespace.journal;
        match self.number {
            Some(number) => journal.update(number, finish_entry),
            None => {
                // Moved, not cloned: the request is complete.
                let headers = std::mem::take(&mut self.head.headers);
                let mut request = self.new_entry(headers);
                finish_entry(&mut request);
                journal.record(request);
            }
        }
    }

    fn new_entry(&self, headers: HeaderMap) -> RecordedRequest {
        let arrival_time = SystemTime::now() - self.start_time.elapsed();
        let mut request = RecordedRequest::new(
            arrival_time,
            &self.head.method,
            &self.head.uri,
            headers,
            &self.body,
        );
        let fault = self.selection.fault.as_ref();
        request.fault = fault.map(|fault| fault.header_value.clone());
        request
    }
}

fn id_to_string(request_id: Option<&HeaderValue>) -> String {
    let id = request_id.and_then(|id| id.to_str().ok());
    id.unwrap_or_default().to_owned()
}

impl Drop for RequestRecorder<'_> {
    fn drop(&mut self) {
        self.record_no_response(None);
    }
}
