//! The sandbox as the transport of a client in the same process, without sockets.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};

use crate::{
    contract::checks,
    net::{
        access_log::AccessLog,
        apply_fault::{self, FaultOutcome, Transport},
        body::{self, BoxError, SandboxBody},
        request_recorder::RequestRecorder,
    },
    service::Service,
};

/// A tower service, which can be the transport of a client. Unlike [`handle`](Service::handle), it applies faults and records
/// requests in the journal, like a server with sockets. It works on any Tokio runtime.
///
/// If a fault would reset or close a connection, the call or the response's body fails. If a fault would stall a connection,
/// the call or the body never completes. If a fault cuts the head of a response, no
/// response is returned.
///
/// ```
/// use dealkit::Client;
/// use dealkit_server::{Fault, Sandbox};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Sandbox::builder().service()?;
/// let client = Client::builder().base_url("http://localhost").service_key("sandbox-key").transport(service.clone()).build()?;
///
/// service.fail_next(Fault::process_then_reset())?; // the client repeats the read
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
    let mut recorder = RequestRecorder::start(service, &log, head);
    recorder.body = body;
    if recorder.selection.needs_body {
        recorder.selection =
            service.select_fault(&recorder.caller, &recorder.head, Some(&recorder.body));
    }
    let response = match recorder.selection.fault.clone() {
        None => recorder.process(),
        Some(fault) => {
            match apply_fault::apply(&fault, &mut recorder, Transport::InProcess).await? {
                FaultOutcome::Complete(response) => response,
                FaultOutcome::Cut(response) => return Ok(response),
            }
        }
    };
    recorder.record_response(&response);
    Ok(body::to_sandbox_body(response))
}
