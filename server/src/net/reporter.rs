//! One request on its way into the journal and the access log, where it is recorded once, whatever becomes of it.

use std::{sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, request::Parts};
use tokio::{sync::oneshot::error::RecvError, time::Instant};

use crate::{
    contract::request_id,
    net::access_log::AccessLog,
    sandbox::{fault::Play, held::Hold, journal::RecordedRequest},
    service::{self, Caller, Service},
};

/// A request that is being answered. If it is dropped first, because its caller went away, it is recorded all the same.
#[derive(Debug)]
pub(crate) struct Reporter<'s> {
    pub(crate) service: &'s Service,
    log: &'s AccessLog,
    pub(crate) began: Instant,
    pub(crate) caller: Caller,
    pub(crate) head: Parts,
    /// The body, as far as it was read.
    pub(crate) body: Bytes,
    pub(crate) fault: Option<Arc<Play>>,
    hold: Option<Hold>,
    /// Its number in the journal, once it is there.
    number: Option<u64>,
    is_done: bool,
}

impl<'s> Reporter<'s> {
    pub(crate) fn begin(service: &'s Service, log: &'s AccessLog, head: Parts) -> Self {
        let caller = service.caller(&head);
        let picked = service.fault(&caller, &head);
        let (fault, hold) = picked.map_or((None, None), |picked| (Some(picked.play), picked.hold));
        Self {
            service,
            log,
            began: Instant::now(),
            fault,
            hold,
            caller,
            head,
            body: Bytes::new(),
            number: None,
            is_done: false,
        }
    }

    /// Makes the journal show the request although there is no response yet.
    pub(crate) fn announce(&mut self) {
        if self.number.is_none() && !service::is_admin(&self.head) {
            let mut request = self.request(self.head.headers.clone());
            request.request_id = text(self.head.headers.get(&request_id::HEADER));
            self.number = Some(self.caller.world.journal.record(request));
        }
    }

    /// Makes the journal show that the request is held, if it is, and waits until it is released.
    ///
    /// # Errors
    /// If it is dropped instead.
    pub(crate) async fn released(&mut self) -> Result<(), RecvError> {
        let Some(hold) = self.hold.take() else {
            return Ok(());
        };
        self.announce();
        let world = &self.caller.world;
        let number = self.number.unwrap_or_default();
        world.faults.held.wait(hold, number, &world.journal).await
    }

    /// Records that this is the response, and completes it.
    pub(crate) fn responded(&mut self, response: &Response<Bytes>) {
        let id = response.headers().get(&request_id::HEADER);
        self.record(Some(response.status()), id);
    }

    /// Records that there is no response. `lost` is the one that there would have been, if any.
    pub(crate) fn lost(&mut self, lost: Option<&Response<Bytes>>) {
        let id = lost.and_then(|lost| lost.headers().get(&request_id::HEADER));
        self.record(None, id);
    }

    fn record(&mut self, status: Option<StatusCode>, request_id: Option<&HeaderValue>) {
        // The sandbox's page looks at it all the time: what programs do would be buried in the log.
        if std::mem::replace(&mut self.is_done, true) || service::is_admin(&self.head) {
            return;
        }
        let request_id = text(request_id.or(self.head.headers.get(&request_id::HEADER)));
        let duration = self.began.elapsed();
        self.log.record(&self.head, status, &request_id, duration);
        let finish = |request: &mut RecordedRequest| {
            request.is_done = true;
            request.is_held = false;
            request.status = status;
            request.request_id = request_id;
            request.duration = duration;
        };
        let journal = &self.caller.world.journal;
        match self.number {
            Some(number) => journal.amend(number, finish),
            None => {
                // Nobody needs them any more.
                let headers = std::mem::take(&mut self.head.headers);
                let mut request = self.request(headers);
                finish(&mut request);
                journal.record(request);
            }
        }
    }

    fn request(&self, headers: HeaderMap) -> RecordedRequest {
        let at = SystemTime::now() - self.began.elapsed();
        let mut request =
            RecordedRequest::new(at, &self.head.method, &self.head.uri, headers, &self.body);
        request.fault = self.fault.as_ref().map(|fault| fault.shown.clone());
        request
    }
}

fn text(request_id: Option<&HeaderValue>) -> String {
    let id = request_id.and_then(|id| id.to_str().ok());
    id.unwrap_or_default().to_owned()
}

impl Drop for Reporter<'_> {
    fn drop(&mut self) {
        self.lost(None);
    }
}
