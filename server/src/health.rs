//! `dealkit-server health`: asks the server that listens on an address whether it is up, as the health check of a container.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use crate::net::tls;

/// How long to wait for the server, at each step.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a server that was told to listen on this address is up; if not, the error says why.
pub(crate) fn check(listen: SocketAddr) -> Result<(), String> {
    if listen.port() == 0 {
        return Err("port 0 stands for any free port, and which one the server got is not known here: choose one with \
                    --listen or DEALKIT_SERVER_LISTEN"
            .to_owned());
    }
    let mut address = listen;
    if address.ip().is_unspecified() {
        address.set_ip(match listen {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    match is_up(address) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("what answers at {address} is not this server")),
        Err(error) => Err(format!("no answer at {address}: {error}")),
    }
}

/// Whether what listens there answers as a server does that is up. One that speaks TLS says so: that is enough, and whether
/// its certificate is trusted, and it asks for one, makes no difference.
fn is_up(address: SocketAddr) -> io::Result<bool> {
    const UP: &[u8] = b"HTTP/1.1 200 ";
    const MAX_ANSWER: u64 = 64 * 1024;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request =
        format!("GET /__sandbox/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(answer.starts_with(UP) || answer == tls::NOT_TLS.as_bytes())
}
