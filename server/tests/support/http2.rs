//! An HTTP/2 client based on the h2 crate, which hyper uses too.

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::Request;
use tokio::{net::TcpStream, task::JoinHandle};

use super::{KEY, Listens, build_request};

/// A connection. Its methods send one request at a time; a test can use `sender` for concurrent requests.
pub struct Http2 {
    pub sender: SendRequest<Bytes>,
    /// The end of the connection.
    pub ended: JoinHandle<Result<(), h2::Error>>,
}

/// The result of a request: the status, the body, and the error that ended the stream, if any.
#[derive(Debug, Default)]
pub struct StreamResult {
    pub status: Option<u16>,
    pub body: Vec<u8>,
    pub error: Option<h2::Error>,
}

impl Http2 {
    pub async fn connect(server: impl Listens) -> Self {
        Self::connect_with(server, &Builder::new()).await
    }

    pub async fn connect_with(server: impl Listens, settings: &Builder) -> Self {
        let stream = TcpStream::connect(server.at()).await.unwrap();
        let (sender, connection) = settings.handshake(stream).await.unwrap();
        Self {
            sender,
            ended: tokio::spawn(connection),
        }
    }

    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> StreamResult {
        let mut came = StreamResult::default();
        came.error = self
            .receive(request(method, path), body, &mut came)
            .await
            .err();
        came
    }

    /// Sends a request and collects the response.
    pub async fn receive(
        &mut self,
        request: Request<()>,
        body: &str,
        came: &mut StreamResult,
    ) -> Result<(), h2::Error> {
        let mut sender = self.sender.clone().ready().await?;
        let (response, mut sending) = sender.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body.as_bytes()), true)?;
        }
        let mut response = response.await?;
        came.status = Some(response.status().as_u16());
        while let Some(data) = response.body_mut().data().await {
            came.body.extend_from_slice(&data?);
        }
        Ok(())
    }
}

/// Builds a request with the service key and a JSON content type.
pub fn request(method: &str, path: &str) -> Request<()> {
    let mut request = build_request(method, &format!("http://h{path}"), KEY);
    request.headers_mut().unwrap().remove("host");
    request.body(()).unwrap()
}
