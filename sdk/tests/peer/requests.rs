//! Requests that a peer passes to the test, and the test's replies.

use std::{convert::Infallible, ops::Deref, pin::pin};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::HANG_LIMIT;

/// A received request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// The request line and headers, unchanged.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The queue of pending requests.
pub(crate) struct Requests(mpsc::UnboundedReceiver<PendingRequest>);

/// A request without a response, and the channel for the reply.
pub(crate) struct PendingRequest {
    request: Request,
    reply: oneshot::Sender<Reply>,
    closed: oneshot::Receiver<Infallible>,
}

/// The test's reply to a request.
#[derive(Debug)]
pub(super) enum Reply {
    Response {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Bytes to send before the connection is closed.
    Close(String),
}

/// The connection's side of the reply channel.
pub(super) struct ReplyReceiver {
    pub(super) reply: oneshot::Receiver<Reply>,
    /// Dropped when the client closes the connection, which notifies the test.
    _closed: oneshot::Sender<Infallible>,
}

impl Deref for PendingRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap()
    }

    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// Returns the last segment of the path, still encoded.
    pub(crate) fn segment(&self) -> &str {
        self.target().rsplit('/').next().unwrap()
    }

    /// Returns the names and values of the headers, sorted.
    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        let lines = self.head.lines().skip(1);
        let mut headers: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
        headers.sort_unstable();
        headers
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers().into_iter();
        headers.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }
}

impl Requests {
    pub(super) fn channel() -> (mpsc::UnboundedSender<PendingRequest>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> PendingRequest {
        timeout(HANG_LIMIT, self.0.recv())
            .await
            .expect("no request arrived")
            .unwrap()
    }

    /// Waits for the next request while `sending` runs. Panics if `sending` ends first.
    pub(crate) async fn next_during<T>(
        &mut self,
        sending: impl Future<Output = T>,
    ) -> PendingRequest {
        tokio::select! {
            _ = sending => panic!("it ended without a request"),
            request = self.next() => request,
        }
    }

    /// Waits for the next `count` requests while `sending` runs. Panics if `sending` ends first.
    pub(crate) async fn next_many_during<T>(
        &mut self,
        count: usize,
        sending: impl Future<Output = T>,
    ) -> Vec<PendingRequest> {
        let mut requests = Vec::new();
        let mut sending = pin!(sending);
        while requests.len() < count {
            requests.push(self.next_during(&mut sending).await);
        }
        requests
    }

    /// Waits for the next request without a time limit, for tasks that respond until the test ends. Returns `None` if the peer
    /// has been dropped.
    pub(crate) async fn next_without_limit(&mut self) -> Option<PendingRequest> {
        self.0.recv().await
    }

    /// Returns the next request if it has already arrived.
    pub(crate) fn try_next(&mut self) -> Option<PendingRequest> {
        self.0.try_recv().ok()
    }
}

impl PendingRequest {
    pub(super) fn new(request: Request) -> (Self, ReplyReceiver) {
        let (sender, receiver) = oneshot::channel();
        let (open, closed) = oneshot::channel();
        let pending = Self {
            request,
            reply: sender,
            closed,
        };
        let receiver = ReplyReceiver {
            reply: receiver,
            _closed: open,
        };
        (pending, receiver)
    }

    /// Sends a status and a body.
    pub(crate) fn answer(self, status: u16, body: &str) {
        self.send(Reply::response(status, &[], body));
    }

    /// Sends a status, headers and a body, unless the client has closed the connection.
    pub(crate) fn try_answer(self, status: u16, headers: &[(&'static str, String)], body: &str) {
        let _ = self.reply.send(Reply::response(status, headers, body));
    }

    /// Sends these bytes and closes the connection.
    pub(crate) fn answer_and_close(self, text: &str) {
        self.send(Reply::Close(text.to_owned()));
    }

    fn send(self, reply: Reply) {
        let sent = self.reply.send(reply);
        assert!(sent.is_ok(), "the client has closed the connection");
    }

    /// Sends the requested deal.
    pub(crate) fn answer_deal(self) {
        let body = format!(r#"{{"id":"{}"}}"#, self.segment());
        self.answer(200, &body);
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn wait_until_closed(self) {
        // Keep the sender: dropping it would make the peer close the connection.
        let _reply = self.reply;
        let closed = timeout(HANG_LIMIT, self.closed).await;
        closed
            .expect("the client keeps the connection open")
            .unwrap_err();
    }
}

impl Reply {
    fn response(status: u16, headers: &[(&'static str, String)], body: &str) -> Self {
        Self::Response {
            status,
            headers: headers.to_vec(),
            body: body.to_owned(),
        }
    }
}
