//! A peer without sockets: a transport that hands every request to the test. Nothing is in flight outside the runtime, so a
//! paused clock advances only while client and service both wait, and a response has arrived once the client has run.

use std::{
    io,
    sync::{Arc, Mutex},
    vec,
};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream};
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::mpsc;
use tower::{Service, service_fn};

use super::{
    Counts, Heard, Request,
    requests::{Answer, Held},
};

type Body = StreamBody<stream::Iter<vec::IntoIter<io::Result<Frame<Bytes>>>>>;

/// A transport that sends every request to `ask`, and returns the test's response.
pub(super) fn transport(
    counts: Arc<Mutex<Counts>>,
    ask: mpsc::UnboundedSender<Heard>,
) -> impl Service<
    http::Request<Bytes>,
    Response = Response<Body>,
    Error = io::Error,
    Future = BoxFuture<'static, io::Result<Response<Body>>>,
> + Clone {
    service_fn(move |request: http::Request<Bytes>| {
        let request = as_read(&request);
        {
            let mut counts = counts.lock().unwrap();
            counts.requests += 1;
            counts.arrived.push(request.clone());
        }
        let (heard, held) = Heard::new(request);
        let is_there = ask.send(heard).is_ok();
        Box::pin(async move {
            if is_there {
                respond(held).await
            } else {
                Err(broken())
            }
        }) as BoxFuture<'static, _>
    })
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
