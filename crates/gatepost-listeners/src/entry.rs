//! The steps between accepting a socket and serving it: banned addresses are refused, a PROXY
//! header names the client, and TLS is negotiated. The last two run on the worker, so that a slow
//! client delays no other.
//!
//! This is the one place where listeners refuse banned connections, before anything is read from
//! them; behind a proxy, before TLS. HTTP also checks the clients that `X-Forwarded-For` names,
//! which are known per request only.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gatepost_bans::Bans;
use gatepost_message::Peer;
use gatepost_settings::PeerNetwork;

use crate::proxy_protocol;
use crate::stream::Stream;
use crate::tls::ServerTls;

/// The time for a proxy to send its header. A working proxy sends it immediately.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);

/// The admission of connections of one address. Cheap to clone.
#[derive(Clone, Default)]
pub struct ListenerEntry {
    tls: Option<ServerTls>,
    proxies: Arc<[PeerNetwork]>,
    bans: Option<Bans>,
}

impl ListenerEntry {
    /// With TLS from the first byte, where given; peers in `proxies` speak the PROXY protocol
    /// before that.
    pub fn new(tls: Option<ServerTls>, proxies: &[PeerNetwork]) -> Self {
        Self {
            tls,
            proxies: proxies.into(),
            bans: None,
        }
    }

    /// Refuses connections of banned addresses.
    pub(crate) fn set_bans(&mut self, bans: Bans) {
        self.bans = Some(bans);
    }

    /// Whether a connection of this peer is closed without reading from it.
    pub(crate) fn refuses(&self, peer: Peer) -> bool {
        self.bans.as_ref().is_some_and(|bans| bans.refuses(peer))
    }

    /// Whether nothing stands between this peer and the protocol.
    pub(crate) fn is_plain(&self, peer: Peer) -> bool {
        self.tls.is_none() && !self.is_proxy(peer)
    }

    /// Whether this peer is a proxy, which names its client.
    pub(crate) fn is_proxy(&self, peer: Peer) -> bool {
        self.proxies.iter().any(|network| network.holds(peer.ip()))
    }

    /// Returns the stream to serve, and the peer behind a proxy.
    pub(crate) async fn open(&self, stream: Stream, peer: Peer) -> io::Result<(Stream, Peer)> {
        let mut client = peer;
        if self.is_proxy(peer) {
            let header = tokio::time::timeout(PROXY_TIMEOUT, read_header(&stream));
            if let Some(address) = header.await?? {
                client = Peer::Address(address);
                if self.refuses(client) {
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, "banned"));
                }
            }
        }
        let stream = match &self.tls {
            Some(tls) => tls.accept(stream).await?,
            None => stream,
        };
        Ok((stream, client))
    }
}

/// Reads the header and not a byte more: the following bytes belong to TLS or to the protocol.
async fn read_header(stream: &Stream) -> io::Result<Option<std::net::SocketAddr>> {
    let mut header = Vec::with_capacity(64);
    loop {
        let parsed = proxy_protocol::parse(&header)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if let Some(parsed) = parsed {
            return Ok(parsed.client);
        }
        let begun = header.len();
        header.resize(begun + proxy_protocol::missing(&header), 0);
        let room = header.get_mut(begun..).unwrap_or_default();
        let read = loop {
            match stream.try_read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => break done?,
            }
            poll_fn(|context| stream.poll_read_ready(context)).await?;
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        header.truncate(begun + read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptor::Acceptor;
    use gatepost_settings::Bind;
    use std::io::Write;

    fn peer(text: &str) -> Peer {
        Peer::Address(text.parse().expect("an address"))
    }

    async fn opened(proxies: &[&str], sent: &'static [u8]) -> io::Result<(Peer, Vec<u8>)> {
        let proxies: Vec<PeerNetwork> = proxies
            .iter()
            .map(|text| text.parse().expect("valid"))
            .collect();
        let bind: Bind = "127.0.0.1:0".parse().expect("an address");
        let acceptor = Acceptor::bind(&bind)?.with_entry(ListenerEntry::new(None, &proxies));
        let Bind::Tcp(address) = acceptor.local().clone() else {
            unreachable!("bound to TCP")
        };
        std::net::TcpStream::connect(address)?.write_all(sent)?;
        let (accepted, peer) = acceptor.listen()?.accept().await?;
        let (stream, peer) = accepted.open(peer).await?;
        let mut rest = vec![0; 64];
        poll_fn(|context| stream.poll_read_ready(context)).await?;
        let count = stream.try_read(&mut rest)?;
        rest.truncate(count);
        Ok((peer, rest))
    }

    #[tokio::test]
    async fn only_a_trusted_proxy_names_its_client() {
        const SENT: &[u8] = b"PROXY TCP4 192.0.2.9 127.0.0.1 7 25\r\nEHLO x\r\n";
        let (client, rest) = opened(&["127.0.0.0/8"], SENT).await.expect("opened");
        assert_eq!(
            (client, &rest[..]),
            (peer("192.0.2.9:7"), &b"EHLO x\r\n"[..])
        );
        let (client, rest) = opened(&["192.0.2.0/24"], SENT).await.expect("opened");
        assert_eq!((client.ip(), &rest[..]), (peer("127.0.0.1:1").ip(), SENT));
        let silent = opened(&["127.0.0.1"], b"EHLO x\r\nMAIL FROM:<>\r\n").await;
        assert_eq!(
            silent.err().map(|error| error.kind()),
            Some(io::ErrorKind::InvalidData)
        );
    }
}
