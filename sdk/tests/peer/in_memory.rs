//! A service without sockets: a transport that hands every request to the test. Nothing is in flight outside the runtime, so a
//! paused clock advances only while client and service both wait.

use std::io;

use bytes::Bytes;
use dealkit::{Client, ClientBuilder};
use http_body_util::Full;
use tokio::{sync::mpsc, time::timeout};
use tower::service_fn;

use super::{
    Heard, KEY, PATIENCE, Request,
    heard::{Answer, Held},
};

pub(crate) struct InMemory {
    builder: ClientBuilder,
    requests: mpsc::UnboundedReceiver<Heard>,
}

impl InMemory {
    pub(crate) fn start() -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let transport = service_fn(move |request: http::Request<Bytes>| {
            let (heard, held) = Heard::new(as_read(&request));
            let is_there = sender.send(heard).is_ok();
            async move {
                if is_there {
                    respond(held).await
                } else {
                    Err(io::ErrorKind::ConnectionReset.into())
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

    /// The next request for the test to answer, as soon as it arrives.
    pub(crate) async fn next(&mut self) -> Heard {
        let request = timeout(PATIENCE, self.requests.recv()).await;
        request.expect("no request came").unwrap()
    }

    /// The next request for a service that answers as long as there are any: it waits without an end.
    pub(crate) async fn next_of_all(&mut self) -> Option<Heard> {
        self.requests.recv().await
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
async fn respond(mut held: Held) -> io::Result<http::Response<Full<Bytes>>> {
    let Ok(Answer::Response {
        status,
        headers,
        body,
    }) = (&mut held.answer).await
    else {
        return Err(io::ErrorKind::ConnectionReset.into());
    };
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(body)).unwrap())
}
