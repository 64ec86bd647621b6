//! Simulated network between a process and the service. Each request is a separate task of the network, so it also arrives if
//! the process that sent it no longer waits for it or was killed.

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
    simulation::{RequestEffect, Simulation},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Frames = Vec<Result<Frame<Bytes>, BoxError>>;
type Body = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, BoxError>>>>;

/// The connections of a process. `rate` is the limit of calls per second that the network checks.
pub(crate) struct Network {
    process: Arc<Process>,
    rate: Option<u32>,
    /// The wait for a connection, in which nothing has been sent.
    connecting: Option<Pin<Box<Sleep>>>,
}

/// Each request uses a separate clone.
impl Clone for Network {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.process), self.rate)
    }
}

/// The course of events of a request and its response, as read from the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    /// The service acts, and its response arrives.
    Answered,
    /// The connection cannot be opened.
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
    /// The process is killed after it has sent the request.
    ThenKilled,
    /// The process is stopped for a while after it has sent the request.
    ThenStopped,
}

impl Exchange {
    fn from_tape(simulation: &Simulation) -> Self {
        match simulation.read_byte() {
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
            154..170 => Self::Status(429, Some(simulation.read_byte())),
            170..178 => Self::Status(503, None),
            178..188 => Self::Status(503, Some(simulation.read_byte())),
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

    /// Sends a request, and returns a receiver of its response.
    fn send(&self, request: Request<Bytes>) -> oneshot::Receiver<Result<Response<Body>, BoxError>> {
        let simulation = Arc::clone(self.simulation());
        let key = row_key(request.body());
        let number = simulation.record_request(&self.process, &key);
        let exchange = Exchange::from_tape(&simulation);
        let is_delayed = exchange != Exchange::Answered || simulation.read_byte() > 0;
        let (there, back) = match is_delayed {
            true => (simulation.read_time(), simulation.read_time()),
            false => (Duration::ZERO, Duration::ZERO),
        };
        simulation.log(&self.process, || {
            format!("sends {key} as request {number}: {exchange:?}, {there:?} there, {back:?} back")
        });
        let (sender, receiver) = oneshot::channel();
        let process = Arc::clone(&self.process);
        match exchange {
            Exchange::ThenKilled => process.kill(),
            Exchange::ThenStopped => process.stop_for(simulation.read_time()),
            _ => {}
        }
        tokio::spawn(async move {
            sleep(there).await;
            let response = serve(&simulation, number, request, exchange);
            sleep(back).await;
            match response {
                Some(response) => drop(sender.send(response)),
                // Without a response, the client waits until its timeout.
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
        simulation.record_effect(number, RequestEffect::Nothing);
        response
    };
    match exchange {
        Exchange::NotConnected => {
            let not_connected =
                TransportNotSent::new(io::Error::from(io::ErrorKind::ConnectionRefused));
            return without_acting(Some(Err(not_connected.into())));
        }
        Exchange::BrokenBefore => return without_acting(broken("the connection was reset")),
        Exchange::Lost => return without_acting(None),
        Exchange::Status(status, wait) => {
            return without_acting(Some(Ok(error_response(status, wait))));
        }
        _ => {}
    }
    let sent_key = request.headers().get(wire::SERVICE_KEY_HEADER);
    if sent_key.is_none_or(|key| key.as_bytes() != simulation.service_key().as_bytes()) {
        return without_acting(Some(Ok(error_response(401, None))));
    }
    let response = handle_request(simulation, number, request);
    match exchange {
        Exchange::BrokenAfter => broken("the connection was reset"),
        Exchange::ResponseLost => None,
        Exchange::ActedButStatus(status) => Some(Ok(error_response(status, None))),
        Exchange::CutOff => Some(Ok(response.map(|body| {
            let half = body.slice(..body.len() / 2);
            let cut: BoxError = io::Error::other("the connection was reset").into();
            body_from_frames(vec![Ok(Frame::data(half)), Err(cut)])
        }))),
        Exchange::Garbled => Some(Ok(response.map(|_| full_body("{".into())))),
        _ => Some(Ok(response.map(full_body))),
    }
}

/// Handles a request with the sandbox, and records whether it has created an agent.
fn handle_request(
    simulation: &Simulation,
    number: usize,
    mut request: Request<Bytes>,
) -> Response<Bytes> {
    let key = HeaderValue::from_static("sandbox-key");
    request.headers_mut().insert(wire::SERVICE_KEY_HEADER, key);
    // Without this id, the service would generate a random one.
    if let Ok(id) = HeaderValue::try_from(format!("request-{number}")) {
        request.headers_mut().insert(wire::REQUEST_ID_HEADER, id);
    }
    let response = simulation.service.handle(request);
    let agent: Option<Value> = serde_json::from_slice(response.body()).ok();
    let id = agent.as_ref().and_then(|agent| agent.get("id")?.as_str());
    simulation.record_effect(
        number,
        match id {
            Some(id) => {
                simulation.log_event(|| format!("the service creates {id} for request {number}"));
                RequestEffect::Created(id.to_owned())
            }
            None => RequestEffect::Nothing,
        },
    );
    response
}

/// Returns the `Retry-After` of a response, as the client applies it.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let wait = response.headers().get(header::RETRY_AFTER)?;
    let seconds = wait.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_secs(60)))
}

fn error_response(status: u16, wait: Option<u8>) -> Response<Body> {
    let mut response = Response::new(full_body(Bytes::new()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(seconds) = wait {
        let seconds = u16::from(seconds);
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn full_body(body: Bytes) -> Body {
    body_from_frames(vec![Ok(Frame::data(body))])
}

fn body_from_frames(frames: Frames) -> Body {
    StreamBody::new(stream::iter(frames))
}

/// Returns the key of the row that a request is for: the agent's e-mail address.
fn row_key(body: &Bytes) -> String {
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
            let time = match simulation.read_byte() {
                0..200 => Duration::ZERO,
                _ => simulation.read_time(),
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
            if let Some(pause) = retry_after(&response) {
                process.simulation.record_pause(&process, pause);
            }
            Ok(response)
        })
    }
}

/// Provides the service key that the service accepts now.
pub(crate) async fn current_key(simulation: Arc<Simulation>) -> Result<String, Infallible> {
    Ok(simulation.service_key())
}
