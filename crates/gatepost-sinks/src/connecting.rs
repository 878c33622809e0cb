//! Connections to a name with several addresses.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

/// Connects to the first of these addresses that answers, within `time`. No address may use up the
/// time of those after it: a name often has an IPv6 address that packets do not reach. An equal
/// part of the time is left to the handshake that follows.
pub async fn connect_to_any(addresses: &[SocketAddr], time: Duration) -> io::Result<TcpStream> {
    let until = Instant::now() + time;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (number, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let parts = u32::try_from(addresses.len() - number + 1).unwrap_or(u32::MAX);
        match tokio::time::timeout(left / parts, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    /// A port that answers no further connection: its queue of connections is full.
    async fn silent_port() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = "127.0.0.1:0".parse().expect("an address");
        socket.bind(any).expect("bound");
        let listener = socket.listen(0).expect("listening");
        let address = listener.local_addr().expect("an address");
        let mut filling = Vec::new();
        let short = Duration::from_millis(200);
        while let Ok(Ok(stream)) = tokio::time::timeout(short, TcpStream::connect(address)).await {
            filling.push(stream);
        }
        (listener, address, filling)
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let (_listener, silent, _filling) = silent_port().await;
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let answering = listener.local_addr().expect("an address");
        let time = Duration::from_secs(6);
        let began = Instant::now();
        let stream = connect_to_any(&[silent, answering], time).await;
        let peer = stream.expect("connected").peer_addr().expect("a peer");
        assert_eq!(peer, answering);
        assert!(began.elapsed() < time, "{:?}", began.elapsed());
        let failed = connect_to_any(&[], time).await.expect_err("no address");
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    }
}
