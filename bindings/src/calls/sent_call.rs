//! A call that Python code has sent. Blocking and asyncio callers drive it.

use futures_util::future::BoxFuture;

use crate::{
    calls::resolve_requests::{ResolveRequest, ResolveRequests, next_request},
    models::call_result::CallResult,
};

/// A call in flight.
pub(crate) struct SentCall {
    result: BoxFuture<'static, CallResult>,
    /// `None` if the call has no `resolve=` function.
    resolve_requests: Option<ResolveRequests>,
    /// The request that the caller has not taken yet. The call waits for the answer before it makes another request. Boxed,
    /// because calls are moved often and requests are rare.
    request: Option<Box<ResolveRequest>>,
}

impl SentCall {
    pub(crate) fn new(
        result: impl Future<Output = CallResult> + Send + 'static,
        resolve_requests: Option<ResolveRequests>,
    ) -> Self {
        Self {
            result: Box::pin(result),
            resolve_requests,
            request: None,
        }
    }

    /// Drives the call to its end, and returns its result. Returns `None` as soon as the call has made a request, which
    /// [`take_request`](Self::take_request) returns.
    pub(crate) async fn drive(&mut self) -> Option<CallResult> {
        tokio::select! {
            biased;
            result = &mut self.result => Some(result),
            Some(request) = next_request(&mut self.resolve_requests) => {
                self.request = Some(Box::new(request));
                None
            }
        }
    }

    pub(crate) fn take_request(&mut self) -> Option<ResolveRequest> {
        self.request.take().map(|request| *request)
    }
}
