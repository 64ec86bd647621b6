//! Requests that the peer hands to the test, which answers them when it likes.

use std::convert::Infallible;

use tokio::{sync::oneshot, time::timeout};

use super::PATIENCE;

/// One request that the peer has read, and the way to answer it.
pub(crate) struct Heard {
    /// Request line and headers, byte for byte.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    answer: oneshot::Sender<Answer>,
    gone: oneshot::Receiver<Infallible>,
}

/// The bytes to answer with, and whether the connection ends after them.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: Vec<u8>,
    pub(super) close: bool,
}

/// The connection's side of a request that was handed over.
pub(super) struct Held {
    pub(super) answer: oneshot::Receiver<Answer>,
    /// Its end tells the test that the client is gone.
    _gone: oneshot::Sender<Infallible>,
}

impl Heard {
    pub(super) fn new(head: String, body: Vec<u8>) -> (Self, Held) {
        let (sender, receiver) = oneshot::channel();
        let (held, gone) = oneshot::channel();
        let heard = Self {
            head,
            body,
            answer: sender,
            gone,
        };
        let held = Held {
            answer: receiver,
            _gone: held,
        };
        (heard, held)
    }

    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap()
    }

    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// The last segment of the path, as it was sent.
    pub(crate) fn segment(&self) -> &str {
        self.target().rsplit('/').next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Answers with a status and a body.
    pub(crate) fn answer(self, status: u16, body: &str) {
        self.send(response(status, &[], body), false);
    }

    /// Answers with a status, headers and a body, unless the client is gone.
    pub(crate) fn answer_if_there(self, status: u16, headers: &[(&str, String)], body: &str) {
        let text = response(status, headers, body).into_bytes();
        let _ = self.answer.send(Answer { text, close: false });
    }

    /// Answers with these bytes and ends the connection.
    pub(crate) fn answer_and_close(self, text: &str) {
        self.send(text.to_owned(), true);
    }

    fn send(self, text: String, close: bool) {
        let text = text.into_bytes();
        let sent = self.answer.send(Answer { text, close });
        assert!(sent.is_ok(), "the client is gone");
    }

    /// Answers with the deal that was requested.
    pub(crate) fn answer_deal(self) {
        let body = format!(r#"{{"id":"{}"}}"#, self.segment());
        self.answer(200, &body);
    }

    /// Waits until the client has given up the connection.
    pub(crate) async fn gone(self) {
        // A response remains possible until then, so it is the client that ends this.
        let _answer = self.answer;
        let ended = timeout(PATIENCE, self.gone).await;
        ended
            .expect("the client holds on to the connection")
            .unwrap_err();
    }
}

fn response(status: u16, headers: &[(&str, String)], body: &str) -> String {
    let mut text = format!(
        "HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n" + body
}
