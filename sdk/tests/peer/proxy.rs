//! An HTTP proxy that connects every host name to the same service.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::spawn_thread;

/// The behavior of a proxy.
#[derive(Clone)]
pub(crate) enum ProxyBehavior {
    /// Connects to this service for every host name: opens a tunnel for CONNECT, and forwards other requests.
    Serve(SocketAddr),
    /// Like `Serve`, for clients with this `Proxy-Authorization`.
    ServeAuthenticated(SocketAddr, &'static str),
    /// Responds with these bytes and closes the connection.
    RespondWith(&'static str),
    /// Sends nothing.
    Stall,
}

const UNAUTHORIZED: &str = "HTTP/1.1 407 Proxy Authentication Required\r\n\
    Proxy-Authenticate: Basic realm=\"CANARY\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(crate) fn start(behavior: ProxyBehavior) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = Arc::clone(&heads);
        spawn_thread(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, behavior.clone(), Arc::clone(&recorded)));
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the URL with a user name and a password.
    pub(crate) fn url_for(&self, user: &str) -> String {
        format!("http://{user}@{}", self.address)
    }

    /// Returns the heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Returns the request lines of all requests.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = |head: &String| head.lines().next().unwrap().to_owned();
        self.heads().iter().map(first).collect()
    }
}

async fn serve(
    mut client: TcpStream,
    behavior: ProxyBehavior,
    heads: Arc<Mutex<Vec<String>>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().unwrap().push(head.clone());
    let target = match behavior {
        ProxyBehavior::Serve(target) => target,
        ProxyBehavior::ServeAuthenticated(target, authorization) => {
            let expected = format!("\r\nproxy-authorization: {authorization}\r\n");
            if !head.to_lowercase().contains(&expected.to_lowercase()) {
                return client.write_all(UNAUTHORIZED.as_bytes()).await;
            }
            target
        }
        ProxyBehavior::RespondWith(text) => {
            client.write_all(text.as_bytes()).await?;
            return client.shutdown().await;
        }
        ProxyBehavior::Stall => {
            let mut rest = Vec::new();
            return client.read_to_end(&mut rest).await.map(drop);
        }
    };
    let mut service = TcpStream::connect(target).await?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
    } else {
        service.write_all(to_forwarded(&head).as_bytes()).await?;
    }
    copy_bidirectional(&mut client, &mut service)
        .await
        .map(drop)
}

/// Converts a request for forwarding: removes the host from the target, and the headers for the proxy.
fn to_forwarded(head: &str) -> String {
    let (method, rest) = head.split_once(" http://").unwrap();
    let path = &rest[rest.find('/').unwrap()..];
    let lines = path.split_inclusive("\r\n");
    let forwarded = lines.filter(|line| !line.to_lowercase().starts_with("proxy-"));
    format!("{method} {}", forwarded.collect::<String>())
}
