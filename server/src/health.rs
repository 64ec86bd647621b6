//! `dealkit-server health`: checks a running server, as a container's health check.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::net::tls;

/// Time limit for connecting, for each read and for each write.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks that a server that listens on this address is up. The unspecified address (`0.0.0.0`) means this machine.
///
/// # Errors
/// If the server does not respond. The message contains the reason.
pub(crate) fn check(address: SocketAddr) -> Result<(), String> {
    match is_up(address) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("the program at {address} is not dealkit-server")),
        Err(error) => Err(format!("no response from {address}: {error}")),
    }
}

/// Sends a health request, and returns true if dealkit-server responds. A server with TLS rejects the unencrypted request with
/// a known response, which is sufficient: the check needs no certificates.
fn is_up(address: SocketAddr) -> io::Result<bool> {
    // Without an HTTP client library, which would enlarge the program by 5 % for one request.
    let mut stream = TcpStream::connect_timeout(&address, STEP_TIMEOUT)?;
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    let request =
        format!("GET /__sandbox/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut response)?;
    Ok(response.starts_with(b"HTTP/1.1 200 ") || response == tls::NOT_TLS.as_bytes())
}
