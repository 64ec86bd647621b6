//! A network with a distance: every byte arrives half a round trip after it was sent, and connecting takes one round
//! trip.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// The round trip of the far service.
pub const ROUND_TRIP: Duration = Duration::from_millis(30);

/// The address at which `target` is reached over the distance.
pub fn to(target: SocketAddr, round_trip: Duration) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, target, round_trip));
            }
        });
    });
    address
}

async fn carry(near: TcpStream, target: SocketAddr, round_trip: Duration) {
    let Ok(far) = TcpStream::connect(target).await else {
        return;
    };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let made = Instant::now() + round_trip;
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    tokio::join!(
        // The kernel connects at once, so what is sent on the connection has to wait for its round trip.
        one_way(from_near, to_far, round_trip / 2, made),
        one_way(from_far, to_near, round_trip / 2, made),
    );
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
    made: Instant,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let send = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let arrives = Instant::now().max(made) + delay;
            if sender.send((arrives, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    let arrive = async move {
        while let Some((at, bytes)) = receiver.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(send, arrive);
}
