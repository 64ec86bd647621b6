//! Custom transports: the requests that they get, and the outcomes of their failures.

use std::{
    error::Error as StdError,
    future::{Future, pending, ready},
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
    vec,
};

use bytes::Bytes;
use dealkit::{Client, ClientBuilder, Error, ErrorKind, Outcome};
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tower_service::Service;

use crate::peer::{AGENT, KEY, ada, immediate_retries};

type BoxError = Box<dyn StdError + Send + Sync>;

/// A transport that behaves in the same way for every request, and records the requests.
#[derive(Clone)]
struct FakeTransport {
    behavior: Behavior,
    requests: Arc<Mutex<Vec<Request<Bytes>>>>,
}

#[derive(Clone, Copy)]
enum Behavior {
    NeverReady,
    Unready,
    Respond(u16, &'static str),
    /// Responds with an incomplete body.
    Break(u16),
    Silent,
    Fail(fn() -> BoxError),
}

/// A body in pieces, without a Content-Length.
type Pieces = StreamBody<stream::Iter<vec::IntoIter<Result<Frame<Bytes>, BoxError>>>>;

fn make_body<const N: usize>(pieces: [Result<&'static str, BoxError>; N]) -> Pieces {
    let frame = |piece: Result<_, _>| piece.map(|text| Frame::data(Bytes::from(text)));
    StreamBody::new(stream::iter(Vec::from(pieces.map(frame))))
}

impl Service<Request<Bytes>> for FakeTransport {
    type Response = Response<Pieces>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Pieces>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.behavior {
            Behavior::NeverReady => Poll::Pending,
            Behavior::Unready => Poll::Ready(Err("closed".into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        self.requests.lock().unwrap().push(request);
        let (status, body) = match self.behavior {
            Behavior::Respond(status, body) => {
                let (first, rest) = body.split_at(body.len() / 2);
                (status, make_body([Ok(first), Ok(rest)]))
            }
            Behavior::Break(status) => (status, make_body([Ok("{"), Err("broken".into())])),
            Behavior::Fail(error) => return Box::pin(ready(Err(error()))),
            _ => return Box::pin(pending()),
        };
        let response = Response::builder().status(status).body(body);
        Box::pin(ready(Ok(response.unwrap())))
    }
}

impl Behavior {
    fn transport(self) -> FakeTransport {
        FakeTransport {
            behavior: self,
            requests: Arc::default(),
        }
    }

    /// Returns the errors of a create and of a read, each with the number of requests that reached the transport.
    async fn call_errors(self) -> [(Error, usize); 2] {
        let transport = self.transport();
        let client = builder(&transport).timeout(Duration::from_millis(100));
        let client = client.build().unwrap();
        let count_requests = || std::mem::take(&mut *transport.requests.lock().unwrap()).len();
        let created = client.agents().create(ada()).await.unwrap_err();
        let created = (created, count_requests());
        let read = client.deals().retrieve("secret-id").await.unwrap_err();
        [created, (read, count_requests())]
    }
}

fn builder(transport: &FakeTransport) -> ClientBuilder {
    Client::builder()
        .base_url("https://deals.example.com/base")
        .service_key(KEY)
        .retry(immediate_retries())
        .transport(transport.clone())
}

#[tokio::test]
async fn a_transport_gets_the_request_and_its_response_is_read() {
    let transport = Behavior::Respond(201, AGENT).transport();
    let client = builder(&transport).header("x-tenant", "7").build().unwrap();
    let exact = client.agents().create(ada()).into_request().unwrap();
    let response = client.agents().create(ada()).with_response().await;
    assert_eq!(response.unwrap().value().id, "a_1");
    let requests = transport.requests.lock().unwrap();
    let [request] = &requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!(request.uri(), "https://deals.example.com/base/v1/agents");
    assert_eq!(
        (request.method(), request.body()),
        (exact.method(), exact.body())
    );
    assert_eq!(request.headers(), exact.headers());
    assert_eq!(request.headers()["x-tenant"], "7");
}

#[tokio::test(start_paused = true)]
async fn a_create_that_may_have_been_sent_is_not_sent_again() {
    // Behaviour of the transport; kind, outcome and number of requests of a create.
    use ErrorKind::{Connect, Interrupted, Status, Timeout};
    use Outcome::{NotSent, Succeeded, Unknown};
    let not_sent = || dealkit::TransportNotSent::new("refused").into();
    let wrapped = || io::Error::other(dealkit::TransportNotSent::new("refused")).into();
    let reset = || "reset".into();
    for (behavior, kind, outcome, expected_requests) in [
        (Behavior::Unready, Connect, NotSent, 0),
        (Behavior::NeverReady, Timeout, NotSent, 0),
        (Behavior::Fail(not_sent), Connect, NotSent, 3),
        (Behavior::Fail(wrapped), Connect, NotSent, 3),
        (Behavior::Fail(reset), Interrupted, Unknown, 1),
        (Behavior::Silent, Timeout, Unknown, 1),
        (Behavior::Break(201), Interrupted, Succeeded, 1),
        (Behavior::Respond(503, ""), Status, Unknown, 1),
        (Behavior::Respond(302, ""), Status, Unknown, 1),
    ] {
        let [(created, requests), (read, _)] = behavior.call_errors().await;
        let actual = (created.kind(), created.outcome());
        assert_eq!(actual, (kind, outcome), "{created}");
        assert_eq!(requests, expected_requests, "{created}");
        assert!(!read.may_have_acted());
    }
    let [_, (read, requests)] = Behavior::Fail(reset).call_errors().await;
    assert_eq!((read.attempts(), requests), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn the_url_and_the_key_in_a_transports_error_are_masked() {
    let revealing = || {
        let url = "https://deals.example.com/base/v1/deals/secret-id";
        format!("{url} failed, /base/v1/deals/secret-id, key {KEY}").into()
    };
    let [_, (read, _)] = Behavior::Fail(revealing).call_errors().await;
    let shown = format!("{read} {read:?} {:?}", read.source().unwrap());
    assert!(
        !shown.contains("secret-id") && !shown.contains(KEY),
        "{shown}"
    );
    assert_eq!(
        read.source().unwrap().to_string(),
        "[URL] failed, [path], key [service key]"
    );
}

#[test]
fn clients_from_one_builder_share_its_transport() {
    let one = builder(&Behavior::Silent.transport());
    let other = builder(&Behavior::Silent.transport()).build().unwrap();
    let client = one.clone().build().unwrap();
    let shared = one.clone().share_connections(&client).build().unwrap();
    assert!(shared.shares_connections(&client));
    let own = one.share_connections(&other).build().unwrap();
    assert!(!own.shares_connections(&other));
}
