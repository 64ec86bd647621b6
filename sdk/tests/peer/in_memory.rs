//! A service without sockets: a transport that hands every request to the test. Nothing is in flight outside the runtime, so a
//! paused clock advances only while client and service both wait, and a response has arrived once the client has run.

use std::{
    io,
    ops::{Deref, DerefMut},
    vec,
};

use bytes::Bytes;
use dealkit::{Client, ClientBuilder, RetryPolicy};
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use tower::service_fn;

use super::{
    Heard, KEY, Request, Requests,
    heard::{Answer, Held},
};

pub(crate) struct InMemory {
    builder: ClientBuilder,
    requests: Requests,
}

type Body = StreamBody<stream::Iter<vec::IntoIter<io::Result<Frame<Bytes>>>>>;

impl InMemory {
    pub(crate) fn start() -> Self {
        let (sender, requests) = Requests::channel();
        let transport = service_fn(move |request: http::Request<Bytes>| {
            let (heard, held) = Heard::new(as_read(&request));
            let is_there = sender.send(heard).is_ok();
            async move {
                if is_there {
                    respond(held).await
                } else {
                    Err(broken())
                }
            }
        });
        let builder = Client::builder()
            .base_url("https://deals.example.com")
            .service_key(KEY)
            .transport(transport);
        Self { builder, requests }
    }

    /// A builder for a client of this service. All clients share the transport.
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder.clone()
    }

    /// A client of this service, without retries.
    pub(crate) fn client(&self) -> Client {
        let builder = self.builder().retry(RetryPolicy::never());
        builder.build().unwrap()
    }
}

impl Deref for InMemory {
    type Target = Requests;

    fn deref(&self) -> &Requests {
        &self.requests
    }
}

impl DerefMut for InMemory {
    fn deref_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }
}

/// The request as a peer reads it from a connection.
fn as_read(request: &http::Request<Bytes>) -> Request {
    let target = request.uri().path_and_query().unwrap();
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    Request {
        head: head + "\r\n",
        body: request.body().to_vec(),
    }
}

/// The test's response; without one, the connection is broken.
async fn respond(mut held: Held) -> io::Result<Response<Body>> {
    match (&mut held.answer).await {
        Ok(Answer::Response {
            status,
            headers,
            body,
        }) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            let body = [Ok(Frame::data(Bytes::from(body)))];
            Ok(response.body(body_of(body.into())).unwrap())
        }
        Ok(Answer::Close(text)) if !text.is_empty() => Ok(cut(&text)),
        _ => Err(broken()),
    }
}

/// A response whose body breaks off where these bytes end.
fn cut(text: &str) -> Response<Body> {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let mut response = Response::builder().status(&lines.next().unwrap()[9..12]);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        response = response.header(name, value);
    }
    let body = Bytes::from(body.to_owned());
    let body = vec![Ok(Frame::data(body)), Err(broken())];
    response.body(body_of(body)).unwrap()
}

fn body_of(pieces: Vec<io::Result<Frame<Bytes>>>) -> Body {
    StreamBody::new(stream::iter(pieces))
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
