//! Custom transports, which send a client's requests in place of dealkit's own connections.

use std::{error::Error, future::poll_fn, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::transport::connect::progress::{MaySend, Progress};

type BoxError = Box<dyn Error + Send + Sync>;

/// A transport of any type. Clones share the underlying service.
#[derive(Clone)]
pub(crate) struct Transport(Arc<Exchange>);

type Exchange = dyn Fn(
        Request<Bytes>,
        Option<MaySend>,
        Progress,
    ) -> BoxFuture<'static, Result<reqwest::Response, BoxError>>
    + Send
    + Sync;

impl Transport {
    pub(crate) fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Bytes>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body + Send + Sync + 'static,
        B::Data: Into<Bytes>,
        B::Error: Into<BoxError>,
    {
        Self(Arc::new(move |request, may_send, progress| {
            let mut service = service.clone();
            Box::pin(async move {
                let preparation = poll_fn(|context| service.poll_ready(context));
                let preparation = progress.observe_preparation(preparation).await;
                preparation.map_err(TransportNotSent::new)?;
                if may_send.is_some_and(|may_send| !may_send()) {
                    return Err(TransportNotSent::new("the request was withheld").into());
                }
                let response = service.call(request).await.map_err(Into::into)?;
                Ok(response.map(reqwest::Body::wrap).into())
            })
        }))
    }

    /// Sends a request, and returns the head of its response. After an error, the service may have received the request, unless
    /// the error or one of its sources is [`TransportNotSent`].
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        may_send: Option<&MaySend>,
        progress: &Progress,
    ) -> Result<reqwest::Response, BoxError> {
        (self.0)(request, may_send.cloned(), progress.clone()).await
    }
}

/// Clones are equal, because they share the transport's connections.
impl PartialEq for Transport {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The error of a [transport](crate::ClientBuilder::transport) that has sent no part of a request, so that even a create may be
/// sent again. It may be the source of another error.
///
/// ```
/// use std::io;
///
/// use dealkit::TransportNotSent;
///
/// let error = TransportNotSent::new(io::Error::from(io::ErrorKind::ConnectionRefused));
/// assert_eq!(error.to_string(), "no part of the request was sent");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("no part of the request was sent")]
pub struct TransportNotSent(#[source] BoxError);

impl TransportNotSent {
    /// Creates the error with its reason.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}
