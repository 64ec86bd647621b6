//! A peer without sockets: a transport that passes every request to the test. All work is in the runtime, so a paused clock
//! advances only while client and peer both wait.

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
    Counts, PendingRequest, Request,
    requests::{Reply, ReplyReceiver},
};

type Body = StreamBody<stream::Iter<vec::IntoIter<io::Result<Frame<Bytes>>>>>;

/// Creates a transport that passes every request to the test, and returns the test's response.
pub(super) fn transport(
    counts: Arc<Mutex<Counts>>,
    ask: mpsc::UnboundedSender<PendingRequest>,
) -> impl Service<
    http::Request<Bytes>,
    Response = Response<Body>,
    Error = io::Error,
    Future = BoxFuture<'static, io::Result<Response<Body>>>,
> + Clone {
    service_fn(move |request: http::Request<Bytes>| {
        let request = to_received(&request);
        {
            let mut counts = counts.lock().unwrap();
            counts.requests += 1;
            counts.arrived.push(request.clone());
        }
        let (pending, receiver) = PendingRequest::new(request);
        let is_peer_alive = ask.send(pending).is_ok();
        Box::pin(async move {
            if is_peer_alive {
                respond(receiver).await
            } else {
                Err(broken())
            }
        }) as BoxFuture<'static, _>
    })
}

/// Formats a request as a peer would receive it over a socket.
fn to_received(request: &http::Request<Bytes>) -> Request {
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

/// Waits for the test's reply. Without a reply, the connection breaks.
async fn respond(mut receiver: ReplyReceiver) -> io::Result<Response<Body>> {
    match (&mut receiver.reply).await {
        Ok(Reply::Response {
            status,
            headers,
            body,
        }) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            let body = [Ok(Frame::data(Bytes::from(body)))];
            Ok(response.body(stream_body(body.into())).unwrap())
        }
        Ok(Reply::Close(text)) if !text.is_empty() => Ok(cut_response(&text)),
        _ => Err(broken()),
    }
}

/// Creates a response whose body breaks off after these bytes.
fn cut_response(text: &str) -> Response<Body> {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let mut response = Response::builder().status(&lines.next().unwrap()[9..12]);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        response = response.header(name, value);
    }
    let body = Bytes::from(body.to_owned());
    let body = vec![Ok(Frame::data(body)), Err(broken())];
    response.body(stream_body(body)).unwrap()
}

fn stream_body(frames: Vec<io::Result<Frame<Bytes>>>) -> Body {
    StreamBody::new(stream::iter(frames))
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
