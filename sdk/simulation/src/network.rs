//! The simulated network between a process and the service. It owns each request in a task of its own, so that a request also arrives
//! if the process that sent it no longer waits for it, or no longer exists.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use dealkit::{TransportNotSent, internal::wire};
use futures_util::{future::BoxFuture, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::Value;
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};
use tower_service::Service;

use crate::{
    process::Process,
    simulation::{RequestEnd, Simulation},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Pieces = Vec<Result<Frame<Bytes>, BoxError>>;
type Body = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, BoxError>>>>;

/// The connections of a process, for calls at this rate per second at most.
pub(crate) struct Network {
    process: Arc<Process>,
    rate: Option<u32>,
    /// The wait for a connection, in which nothing has been sent.
    connecting: Option<Pin<Box<Sleep>>>,
}

/// Each request has a clone of its own.
impl Clone for Network {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.process), self.rate)
    }
}

/// The course of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    /// It is answered.
    Answered,
    /// There is no connection.
    NotConnected,
    /// The connection breaks before the service has acted.
    BrokenBefore,
    /// The connection breaks after the service has acted.
    BrokenAfter,
    /// The response breaks off in its body.
    CutOff,
    /// The response is not valid JSON.
    Garbled,
    /// The request is lost, and there is no response.
    Lost,
    /// The service acts, and its response is lost.
    ResponseLost,
    /// The service responds with this status without acting, and with this `Retry-After`, in seconds.
    Status(u16, Option<u8>),
    /// The service acts, and responds with this status.
    ActedButStatus(u16),
    /// The process is killed once it has sent the request.
    ThenKilled,
    /// The process is stopped once it has sent the request.
    ThenStopped,
}

impl Exchange {
    fn read(simulation: &Simulation) -> Self {
        match simulation.byte() {
            24..44 => Self::NotConnected,
            44..56 => Self::BrokenBefore,
            56..80 => Self::BrokenAfter,
            80..88 => Self::CutOff,
            88..96 => Self::Garbled,
            96..104 => Self::Lost,
            104..120 => Self::ResponseLost,
            120..126 => Self::Status(401, None),
            126..130 => Self::Status(408, None),
            130..142 => Self::Status(422, None),
            142..154 => Self::Status(429, None),
            154..170 => Self::Status(429, Some(simulation.byte())),
            170..178 => Self::Status(503, None),
            178..188 => Self::Status(503, Some(simulation.byte())),
            188..196 => Self::Status(500, None),
            196..206 => Self::ActedButStatus(500),
            206..216 => Self::ThenKilled,
            216..240 => Self::ThenStopped,
            _ => Self::Answered,
        }
    }
}

impl Network {
    pub(crate) fn new(process: Arc<Process>, rate: Option<u32>) -> Self {
        Self {
            process,
            rate,
            connecting: None,
        }
    }

    fn simulation(&self) -> &Arc<Simulation> {
        &self.process.simulation
    }

    /// Sends a request, and returns how its response will arrive.
    fn send(&self, request: Request<Bytes>) -> oneshot::Receiver<Result<Response<Body>, BoxError>> {
        let simulation = Arc::clone(self.simulation());
        let key = key_in(request.body());
        let number = simulation.send(&self.process, &key);
        let exchange = Exchange::read(&simulation);
        let is_delayed = exchange != Exchange::Answered || simulation.byte() > 0;
        let (there, back) = match is_delayed {
            true => (simulation.time(), simulation.time()),
            false => (Duration::ZERO, Duration::ZERO),
        };
        simulation.log(&self.process, || {
            format!("sends {key} as request {number}: {exchange:?}, {there:?} there, {back:?} back")
        });
        let (sender, receiver) = oneshot::channel();
        let process = Arc::clone(&self.process);
        match exchange {
            Exchange::ThenKilled => process.kill(),
            Exchange::ThenStopped => process.stop_for(simulation.time()),
            _ => {}
        }
        tokio::spawn(async move {
            sleep(there).await;
            let response = serve(&simulation, number, request, exchange);
            sleep(back).await;
            match response {
                Some(response) => drop(sender.send(response)),
                // The client waits until its time is over.
                None => std::future::pending().await,
            }
        });
        receiver
    }
}

/// Handles a request on the service's side; `None` if there is no response.
fn serve(
    simulation: &Simulation,
    number: usize,
    request: Request<Bytes>,
    exchange: Exchange,
) -> Option<Result<Response<Body>, BoxError>> {
    let broken = |why: &str| Some(Err(io::Error::other(why.to_owned()).into()));
    let without_acting = |response| {
        simulation.end(number, RequestEnd::Nothing);
        response
    };
    match exchange {
        Exchange::NotConnected => {
            let error = TransportNotSent::new(io::Error::from(io::ErrorKind::ConnectionRefused));
            return without_acting(Some(Err(error.into())));
        }
        Exchange::BrokenBefore => return without_acting(broken("the connection was reset")),
        Exchange::Lost => return without_acting(None),
        Exchange::Status(status, wait) => {
            return without_acting(Some(Ok(failure(status, wait))));
        }
        _ => {}
    }
    let sent_key = request.headers().get(wire::SERVICE_KEY_HEADER);
    if sent_key.is_none_or(|key| key.as_bytes() != simulation.service_key().as_bytes()) {
        return without_acting(Some(Ok(failure(401, None))));
    }
    let response = act(simulation, number, request);
    match exchange {
        Exchange::BrokenAfter => broken("the connection was reset"),
        Exchange::ResponseLost => None,
        Exchange::ActedButStatus(status) => Some(Ok(failure(status, None))),
        Exchange::CutOff => Some(Ok(response.map(|body| {
            let half = body.slice(..body.len() / 2);
            let cut: BoxError = io::Error::other("the connection was reset").into();
            pieces(vec![Ok(Frame::data(half)), Err(cut)])
        }))),
        Exchange::Garbled => Some(Ok(response.map(|_| whole("{".into())))),
        _ => Some(Ok(response.map(whole))),
    }
}

/// Handles a request with the sandbox, and records whether it has created an agent.
fn act(simulation: &Simulation, number: usize, mut request: Request<Bytes>) -> Response<Bytes> {
    let key = HeaderValue::from_static("sandbox-key");
    request.headers_mut().insert(wire::SERVICE_KEY_HEADER, key);
    // Without one, the service gives the request a random one.
    if let Ok(id) = HeaderValue::try_from(format!("request-{number}")) {
        request.headers_mut().insert(wire::REQUEST_ID_HEADER, id);
    }
    let response = simulation.service.handle(request);
    let agent: Option<Value> = serde_json::from_slice(response.body()).ok();
    let id = agent.as_ref().and_then(|agent| agent.get("id")?.as_str());
    simulation.end(
        number,
        match id {
            Some(id) => {
                simulation.log_event(|| format!("the service creates {id} for request {number}"));
                RequestEnd::Created(id.to_owned())
            }
            None => RequestEnd::Nothing,
        },
    );
    response
}

/// The time for which a response asks all calls of its client to wait.
fn asked_pause(response: &Response<Body>) -> Option<Duration> {
    let wait = response.headers().get(header::RETRY_AFTER)?;
    let seconds = wait.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_secs(60)))
}

fn failure(status: u16, wait: Option<u8>) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(seconds) = wait {
        let seconds = u16::from(seconds);
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn whole(body: Bytes) -> Body {
    pieces(vec![Ok(Frame::data(body))])
}

fn pieces(pieces: Pieces) -> Body {
    StreamBody::new(stream::iter(pieces))
}

/// The key of the row that a request is for: the agent's e-mail address.
fn key_in(body: &Bytes) -> String {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let email = body.as_ref().and_then(|body| body.get("email")?.as_str());
    email.unwrap_or_default().to_owned()
}

impl Service<Request<Bytes>> for Network {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let connecting = self.connecting.get_or_insert_with(|| {
            let simulation = &self.process.simulation;
            simulation.check_traffic(&self.process, self.rate);
            let time = match simulation.byte() {
                0..200 => Duration::ZERO,
                _ => simulation.time(),
            };
            Box::pin(sleep(time))
        });
        connecting.as_mut().poll(context).map(Ok)
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let response = self.send(request);
        let process = Arc::clone(&self.process);
        Box::pin(async move {
            let lost = |_| io::Error::other("the connection was reset");
            let response = response.await.map_err(lost)??;
            if let Some(pause) = asked_pause(&response) {
                process.simulation.pause(&process, pause);
            }
            Ok(response)
        })
    }
}

/// Provides the service key that is accepted at the moment.
pub(crate) async fn current_key(simulation: Arc<Simulation>) -> Result<String, Infallible> {
    Ok(simulation.service_key())
}
