//! A service with fixed responses, on bare hyper.

use std::{
    convert::Infallible,
    env,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{self, Handle, Runtime},
};

use crate::document::{TYPICAL, deal};

/// The service key that the benchmarks send. It is not checked here.
pub const KEY: &str = "sandbox-key";

const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","date_of_birth":null,"current_brokerage_id":null,"profile":{"tier":"A"},"role_assignments":[{"role":"AGENT","office_id":"o_1"}]}"#;

/// The service, which speaks HTTP/1.1.
#[derive(Debug)]
pub struct Service {
    /// The address at which it listens.
    pub address: SocketAddr,
}

impl Service {
    /// Starts the service, with the connections spread over `threads` threads in turn.
    pub fn start_on(threads: usize) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let others = (1..threads).map(|_| runtime_of_a_thread()).collect();
        std::thread::spawn(move || current_thread().block_on(serve(listener, others)));
        Self { address }
    }
}

/// The service as a separate process, whose instructions are not counted as the client's. The process ends when this value is dropped
/// or this process ends.
#[derive(Debug)]
pub struct ServiceProcess {
    /// Its URL.
    pub url: String,
    /// Keeps the standard input of the service open; its end ends the service.
    _process: Child,
}

impl ServiceProcess {
    /// Starts the program `service`, which is in the same folder as this program.
    pub fn start() -> Self {
        let program = env::current_exe().unwrap().with_file_name("service");
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut url).unwrap();
        Self {
            url: url.trim_end().to_owned(),
            _process: process,
        }
    }
}

fn current_thread() -> Runtime {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Starts a runtime on its own thread.
fn runtime_of_a_thread() -> Handle {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// Spreads the connections over this runtime and the others.
async fn serve(listener: std::net::TcpListener, mut runtimes: Vec<Handle>) {
    let listener = TcpListener::from_std(listener).unwrap();
    let deal = Bytes::from(deal(TYPICAL));
    runtimes.push(Handle::current());
    let mut turns = runtimes.iter().cycle();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let deal = deal.clone();
        // A socket belongs to the runtime in which it was made.
        let stream = stream.into_std().unwrap();
        turns.next().unwrap().spawn(async move {
            let stream = TokioIo::new(TcpStream::from_std(stream).unwrap());
            let respond = service_fn(move |request| respond(request, deal.clone()));
            // A closed connection is not an error here.
            let _ = http1::Builder::new()
                .serve_connection(stream, respond)
                .await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    deal: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = if request.method() == Method::POST {
        let _ = request.into_body().collect().await;
        (StatusCode::CREATED, Bytes::from_static(AGENT.as_bytes()))
    } else {
        (StatusCode::OK, deal)
    };
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body));
    Ok(response.unwrap())
}
