//! A proxy on this machine that maps every name to the one service behind it.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::on_own_thread;

/// What a proxy does with a request.
#[derive(Clone)]
pub(crate) enum Manner {
    /// Connects to this service, whatever the name: opens a tunnel for CONNECT, and forwards anything else.
    Serve(SocketAddr),
    /// The same, for clients that send this in `Proxy-Authorization`.
    ServeWith(SocketAddr, &'static str),
    /// Responds with these bytes and closes the connection.
    Say(&'static str),
    /// Says nothing.
    Stall,
}

const UNAUTHORIZED: &str = "HTTP/1.1 407 Proxy Authentication Required\r\n\
    Proxy-Authenticate: Basic realm=\"CANARY\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&heads);
        on_own_thread(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manner.clone(), Arc::clone(&heard)));
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its URL with a user name and a password.
    pub(crate) fn url_for(&self, user: &str) -> String {
        format!("http://{user}@{}", self.address)
    }

    /// The request line and headers of every request it received.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// The request lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = |head: &String| head.lines().next().unwrap().to_owned();
        self.heads().iter().map(first).collect()
    }
}

async fn serve(
    mut client: TcpStream,
    manner: Manner,
    heads: Arc<Mutex<Vec<String>>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().unwrap().push(head.clone());
    let target = match manner {
        Manner::Serve(target) => target,
        Manner::ServeWith(target, authorization) => {
            let said = format!("\r\nproxy-authorization: {authorization}\r\n");
            if !head.to_lowercase().contains(&said.to_lowercase()) {
                return client.write_all(UNAUTHORIZED.as_bytes()).await;
            }
            target
        }
        Manner::Say(text) => {
            client.write_all(text.as_bytes()).await?;
            return client.shutdown().await;
        }
        Manner::Stall => {
            let mut rest = Vec::new();
            return client.read_to_end(&mut rest).await.map(drop);
        }
    };
    let mut service = TcpStream::connect(target).await?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
    } else {
        service.write_all(for_service(&head).as_bytes()).await?;
    }
    copy_bidirectional(&mut client, &mut service)
        .await
        .map(drop)
}

/// A request as a proxy forwards it: without the host in its target, and without what was meant for the proxy.
fn for_service(head: &str) -> String {
    let (method, rest) = head.split_once(" http://").unwrap();
    let path = &rest[rest.find('/').unwrap()..];
    let lines = path.split_inclusive("\r\n");
    let kept = lines.filter(|line| !line.to_lowercase().starts_with("proxy-"));
    format!("{method} {}", kept.collect::<String>())
}
