//! Requests that the peer hands to the test, and the test's responses.

use std::{convert::Infallible, ops::Deref, pin::pin};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::PATIENCE;

/// A request as the peer read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Request line and headers, byte for byte.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The queue of requests without a response.
pub(crate) struct Requests(mpsc::UnboundedReceiver<Heard>);

/// A request with a reply channel.
pub(crate) struct Heard {
    request: Request,
    answer: oneshot::Sender<Answer>,
    gone: oneshot::Receiver<Infallible>,
}

/// The test's response to a request.
#[derive(Debug)]
pub(super) enum Answer {
    Response {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Bytes to send before the connection is closed.
    Close(String),
}

/// The connection's end of the reply channel.
pub(super) struct Held {
    pub(super) answer: oneshot::Receiver<Answer>,
    /// Dropped when the client closes the connection, which the test observes.
    _gone: oneshot::Sender<Infallible>,
}

impl Deref for Heard {
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

    /// The last segment of the path, not decoded.
    pub(crate) fn segment(&self) -> &str {
        self.target().rsplit('/').next().unwrap()
    }

    /// The names and values of the headers, sorted.
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
    pub(super) fn channel() -> (mpsc::UnboundedSender<Heard>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Heard {
        timeout(PATIENCE, self.0.recv())
            .await
            .expect("no request came")
            .unwrap()
    }

    /// Waits for the next request while `sending` runs, which must not end before.
    pub(crate) async fn next_of<T>(&mut self, sending: impl Future<Output = T>) -> Heard {
        tokio::select! {
            _ = sending => panic!("nothing was answered"),
            heard = self.next() => heard,
        }
    }

    /// Waits for the next `count` requests while `sending` runs, which must not end before.
    pub(crate) async fn next_few_of<T>(
        &mut self,
        count: usize,
        sending: impl Future<Output = T>,
    ) -> Vec<Heard> {
        let mut heard = Vec::new();
        let mut sending = pin!(sending);
        while heard.len() < count {
            heard.push(self.next_of(&mut sending).await);
        }
        heard
    }

    /// Waits for the next request without a limit; `None` once the peer is gone. For responders that run until the test ends.
    pub(crate) async fn next_of_all(&mut self) -> Option<Heard> {
        self.0.recv().await
    }

    /// Returns a request that has already arrived, if any.
    pub(crate) fn waiting(&mut self) -> Option<Heard> {
        self.0.try_recv().ok()
    }
}

impl Heard {
    pub(super) fn new(request: Request) -> (Self, Held) {
        let (sender, receiver) = oneshot::channel();
        let (held, gone) = oneshot::channel();
        let heard = Self {
            request,
            answer: sender,
            gone,
        };
        let held = Held {
            answer: receiver,
            _gone: held,
        };
        (heard, held)
    }

    /// Sends a status and a body.
    pub(crate) fn answer(self, status: u16, body: &str) {
        self.send(Answer::response(status, &[], body));
    }

    /// Sends a status, headers and a body, unless the client is gone.
    pub(crate) fn answer_if_there(
        self,
        status: u16,
        headers: &[(&'static str, String)],
        body: &str,
    ) {
        let _ = self.answer.send(Answer::response(status, headers, body));
    }

    /// Sends these bytes and closes the connection.
    pub(crate) fn answer_and_close(self, text: &str) {
        self.send(Answer::Close(text.to_owned()));
    }

    fn send(self, answer: Answer) {
        let sent = self.answer.send(answer);
        assert!(sent.is_ok(), "the client is gone");
    }

    /// Sends the deal that was requested.
    pub(crate) fn answer_deal(self) {
        let body = format!(r#"{{"id":"{}"}}"#, self.segment());
        self.answer(200, &body);
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn gone(self) {
        // A response remains possible until then, so it is the client that ends this.
        let _answer = self.answer;
        let ended = timeout(PATIENCE, self.gone).await;
        ended
            .expect("the client holds on to the connection")
            .unwrap_err();
    }
}

impl Answer {
    fn response(status: u16, headers: &[(&'static str, String)], body: &str) -> Self {
        Self::Response {
            status,
            headers: headers.to_vec(),
            body: body.to_owned(),
        }
    }
}
