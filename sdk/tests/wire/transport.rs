//! A client whose transport is not dealkit's own: what it is given, and what its failures mean.

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

/// A transport that does the same with every request, and keeps what it was given.
#[derive(Clone)]
struct Does {
    what: What,
    given: Arc<Mutex<Vec<Request<Bytes>>>>,
}

#[derive(Clone, Copy)]
enum What {
    NeverReady,
    Unready,
    Respond(u16, &'static str),
    /// A response whose body breaks off.
    Break(u16),
    Silent,
    Fail(fn() -> BoxError),
}

/// The pieces of a body whose length is not announced.
type Pieces = StreamBody<stream::Iter<vec::IntoIter<Result<Frame<Bytes>, BoxError>>>>;

fn pieces<const N: usize>(pieces: [Result<&'static str, BoxError>; N]) -> Pieces {
    let frame = |piece: Result<_, _>| piece.map(|text| Frame::data(Bytes::from(text)));
    StreamBody::new(stream::iter(Vec::from(pieces.map(frame))))
}

impl Service<Request<Bytes>> for Does {
    type Response = Response<Pieces>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Pieces>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.what {
            What::NeverReady => Poll::Pending,
            What::Unready => Poll::Ready(Err("closed".into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        self.given.lock().unwrap().push(request);
        let (status, body) = match self.what {
            What::Respond(status, body) => {
                let (first, rest) = body.split_at(body.len() / 2);
                (status, pieces([Ok(first), Ok(rest)]))
            }
            What::Break(status) => (status, pieces([Ok("{"), Err("broken".into())])),
            What::Fail(error) => return Box::pin(ready(Err(error()))),
            _ => return Box::pin(pending()),
        };
        let response = Response::builder().status(status).body(body);
        Box::pin(ready(Ok(response.unwrap())))
    }
}

impl What {
    fn transport(self) -> Does {
        Does {
            what: self,
            given: Arc::default(),
        }
    }

    /// The errors of a create and of a read, and how many requests the transport was given for each.
    async fn errors(self) -> [(Error, usize); 2] {
        let transport = self.transport();
        let client = builder(&transport).timeout(Duration::from_millis(100));
        let client = client.build().unwrap();
        let given = || std::mem::take(&mut *transport.given.lock().unwrap()).len();
        let created = client.agents().create(ada()).await.unwrap_err();
        let created = (created, given());
        let read = client.deals().retrieve("secret-id").await.unwrap_err();
        [created, (read, given())]
    }
}

fn builder(transport: &Does) -> ClientBuilder {
    Client::builder()
        .base_url("https://deals.example.com/base")
        .service_key(KEY)
        .retry(immediate_retries())
        .transport(transport.clone())
}

#[tokio::test]
async fn a_transport_is_given_the_request_and_its_response_is_read() {
    let transport = What::Respond(201, AGENT).transport();
    let client = builder(&transport).header("x-tenant", "7").build().unwrap();
    let exact = client.agents().create(ada()).into_request().unwrap();
    let response = client.agents().create(ada()).with_response().await;
    assert_eq!(response.unwrap().value().id, "a_1");
    let given = transport.given.lock().unwrap();
    let [given] = &given[..] else {
        panic!("{given:?}")
    };
    assert_eq!(given.uri(), "https://deals.example.com/base/v1/agents");
    assert_eq!(
        (given.method(), given.body()),
        (exact.method(), exact.body())
    );
    assert_eq!(given.headers(), exact.headers());
    assert_eq!(given.headers()["x-tenant"], "7");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_sent_is_not_sent_again() {
    // What fails, and the kind, the outcome and the number of requests of a create.
    use ErrorKind::{Connect, Interrupted, Status, Timeout};
    use Outcome::{NotSent, Succeeded, Unknown};
    let refused = || dealkit::TransportNotSent::new("refused").into();
    let wrapped = || io::Error::other(dealkit::TransportNotSent::new("refused")).into();
    let reset = || "reset".into();
    for (what, kind, outcome, requests) in [
        (What::Unready, Connect, NotSent, 0),
        (What::NeverReady, Timeout, NotSent, 0),
        (What::Fail(refused), Connect, NotSent, 3),
        (What::Fail(wrapped), Connect, NotSent, 3),
        (What::Fail(reset), Interrupted, Unknown, 1),
        (What::Silent, Timeout, Unknown, 1),
        (What::Break(201), Interrupted, Succeeded, 1),
        (What::Respond(503, ""), Status, Unknown, 1),
        (What::Respond(302, ""), Status, Unknown, 1),
    ] {
        let [(created, given), (read, _)] = what.errors().await;
        let told = (created.kind(), created.outcome());
        assert_eq!(told, (kind, outcome), "{created}");
        assert_eq!(given, requests, "{created}");
        assert!(!read.may_have_acted());
    }
    let [_, (read, given)] = What::Fail(reset).errors().await;
    assert_eq!((read.attempts(), given), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn no_text_shows_what_an_error_of_a_transport_says_of_the_request() {
    let telling = || {
        let url = "https://deals.example.com/base/v1/deals/secret-id";
        format!("{url} failed, /base/v1/deals/secret-id, key {KEY}").into()
    };
    let [_, (read, _)] = What::Fail(telling).errors().await;
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
fn clients_share_a_transport_that_one_builder_was_given() {
    let one = builder(&What::Silent.transport());
    let other = builder(&What::Silent.transport()).build().unwrap();
    let client = one.clone().build().unwrap();
    let shared = one.clone().share_connections(&client).build().unwrap();
    assert!(shared.shares_connections(&client));
    let own = one.share_connections(&other).build().unwrap();
    assert!(!own.shares_connections(&other));
}
