//! The sandbox as the transport of a client in the same process: the same responses, faults and journal, and no socket.

use std::{
    future::pending,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};

use crate::{
    contract::checks,
    net::{
        access_log::AccessLog,
        body::{self, BoxError, SandboxBody},
        break_off::{BreakOff, Fate, broken},
        reporter::Reporter,
    },
    sandbox::How,
    service::Service,
};

/// A tower service, such as the transport of a client. Unlike [`handle`](Service::handle) it makes faults happen and keeps the
/// journal, as a server with sockets does. It works on any Tokio runtime.
///
/// Where a fault breaks off a connection, the call or the body of its response fails, whether the connection would be reset or
/// closed; where it stalls, nothing more comes. A response that is cut in its head does not come at all.
///
/// ```
/// use dealkit::Client;
/// use dealkit_server::{Fault, Sandbox};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Sandbox::builder().service()?;
/// let client = Client::builder().base_url("http://localhost").service_key("sandbox-key").transport(service.clone()).build()?;
///
/// service.fail_next(Fault::act_then_reset())?; // on a read it does no harm: it is sent again
/// assert_eq!(client.deals().retrieve("d_1").await?.id, "d_1");
/// assert_eq!(service.requests().len(), 2);
/// # Ok(()) }
/// ```
impl tower_service::Service<Request<Bytes>> for Service {
    type Response = Response<SandboxBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { respond(&service, request).await })
    }
}

async fn respond(
    service: &Service,
    request: Request<Bytes>,
) -> Result<Response<SandboxBody>, BoxError> {
    let (mut head, body) = request.into_parts();
    checks::add_host(&mut head);
    let log = AccessLog::default();
    let mut seen = Reporter::begin(service, &log, head);
    seen.body = body;
    let fate = match seen.fault.clone() {
        None => Fate::Response(service.answer(&seen.caller, &seen.head, &seen.body)),
        Some(fault) => Fate::of(&fault, &mut seen).await,
    };
    match fate {
        Fate::Cut(response, bytes, how) if bytes < response.body().len() as u64 => {
            let how = if how == How::Stall { how } else { How::Reset };
            Ok(body::cut(response, bytes, how, Arc::default()))
        }
        Fate::Response(response) | Fate::Cut(response, ..) => {
            seen.responded(&response);
            Ok(body::of(response))
        }
        Fate::Lost(BreakOff {
            how: How::Stall, ..
        }) => pending().await,
        Fate::Lost(_) => Err(broken().into()),
    }
}
