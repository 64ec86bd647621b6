//! `dealkit-server health`: asks the server that listens on an address whether it is up, as the health check of a container.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::net::tls;

/// How long to wait for the server, at each step.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a server that was told to listen on this address is up; if not, the error says why. Where it listens on every
/// address, the system takes that for this machine.
pub(crate) fn check(address: SocketAddr) -> Result<(), String> {
    match is_up(address) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("what answers at {address} is not this server")),
        Err(error) => Err(format!("no answer at {address}: {error}")),
    }
}

/// Whether what listens there answers as a server does that is up. One that speaks TLS says so: that is enough, and whether
/// its certificate is trusted, and it asks for one, makes no difference.
fn is_up(address: SocketAddr) -> io::Result<bool> {
    // By hand: a library for this one request makes the program larger by a twentieth.
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request =
        format!("GET /__sandbox/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut response)?;
    Ok(response.starts_with(b"HTTP/1.1 200 ") || response == tls::NOT_TLS.as_bytes())
}
