//! The steps between accepting a socket and serving it: a PROXY header names the client, and TLS is
//! negotiated. Both run on the worker, so that a slow client delays no other.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::Peer;
use serde::{Deserialize, Serialize};

use crate::proxy_protocol;
use crate::stream::Stream;
use crate::tls::Tls;

/// A proxy says who its client is at once, or something is wrong.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);

/// How connections of one address begin. Cheap to clone.
#[derive(Clone, Default)]
pub struct Entry {
    tls: Option<Tls>,
    proxies: Arc<[Network]>,
}

impl Entry {
    /// With TLS from the first byte, where given; peers in `proxies` speak the PROXY protocol
    /// before that.
    pub fn new(tls: Option<Tls>, proxies: &[Network]) -> Self {
        Self {
            tls,
            proxies: proxies.into(),
        }
    }

    /// Whether nothing stands between this peer and the protocol.
    pub(crate) fn is_plain(&self, peer: Peer) -> bool {
        self.tls.is_none() && !self.proxies.iter().any(|network| network.holds(peer))
    }

    /// Gives the stream to serve, and the peer behind a proxy.
    pub(crate) async fn open(&self, stream: Stream, peer: Peer) -> io::Result<(Stream, Peer)> {
        let mut client = peer;
        if self.proxies.iter().any(|network| network.holds(peer)) {
            let header = tokio::time::timeout(PROXY_TIMEOUT, read_header(&stream));
            if let Some(address) = header.await?? {
                client = Peer::Address(address);
            }
        }
        let stream = match &self.tls {
            Some(tls) => tls.accept(stream).await?,
            None => stream,
        };
        Ok((stream, client))
    }
}

/// Reads the header and not a byte more: what follows is TLS's or the protocol's.
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

/// Peers that are trusted: an address (`"192.0.2.1"`), a network (`"10.0.0.0/8"`), or `"unix"`
/// for those of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Network {
    /// The addresses that share so many leading bits.
    Addresses {
        /// One of them.
        address: IpAddr,
        /// How many bits count.
        bits: u8,
    },
    /// Peers without an address.
    Unix,
}

impl Network {
    /// Whether the peer is one of them.
    pub fn holds(&self, peer: Peer) -> bool {
        match (self, peer.ip().map(|ip| ip.to_canonical())) {
            (Self::Unix, None) => true,
            (Self::Addresses { address, bits }, Some(ip)) => match (address, ip) {
                (IpAddr::V4(network), IpAddr::V4(ip)) => {
                    let differing = (network.to_bits() ^ ip.to_bits()).leading_zeros();
                    differing >= u32::from(*bits)
                }
                (IpAddr::V6(network), IpAddr::V6(ip)) => {
                    let differing = (network.to_bits() ^ ip.to_bits()).leading_zeros();
                    differing >= u32::from(*bits)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// The text names no peers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no network; write an address, a network such as \"10.0.0.0/8\", or \"unix\"")]
pub struct MalformedNetwork(String);

impl FromStr for Network {
    type Err = MalformedNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let malformed = || MalformedNetwork(text.chars().take(80).collect());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().map_err(|_| malformed())?,
        };
        if bits > bits_max {
            return Err(malformed());
        }
        Ok(Self::Addresses { address, bits })
    }
}

impl TryFrom<String> for Network {
    type Error = MalformedNetwork;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        match network {
            Network::Unix => "unix".to_owned(),
            Network::Addresses { address, bits } => format!("{address}/{bits}"),
        }
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

    #[test]
    fn networks_hold_their_addresses_only() {
        for (network, address, held) in [
            ("10.0.0.0/8", "10.255.1.1:1", true),
            ("10.0.0.0/8", "11.0.0.1:1", false),
            ("192.0.2.1", "192.0.2.1:1", true),
            ("192.0.2.1", "[::ffff:192.0.2.1]:1", true),
            ("192.0.2.1", "192.0.2.2:1", false),
            ("0.0.0.0/0", "203.0.113.9:1", true),
            ("0.0.0.0/0", "[::1]:1", false),
            ("2001:db8::/32", "[2001:db8:1::1]:1", true),
            ("2001:db8::/32", "[2001:db9::1]:1", false),
        ] {
            let parsed: Network = network.parse().expect(network);
            assert_eq!(parsed.holds(peer(address)), held, "{network} {address}");
        }
        let unix: Network = "unix".parse().expect("unix");
        assert!(unix.holds(Peer::Local) && !unix.holds(peer("127.0.0.1:1")));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "example.org", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    async fn opened(proxies: &[&str], sent: &'static [u8]) -> io::Result<(Peer, Vec<u8>)> {
        let proxies: Vec<Network> = proxies
            .iter()
            .map(|text| text.parse().expect("valid"))
            .collect();
        let bind: Bind = "127.0.0.1:0".parse().expect("an address");
        let acceptor = Acceptor::bind(&bind)?.with_entry(Entry::new(None, &proxies));
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
    async fn a_trusted_proxy_names_its_client_and_nobody_else_does() {
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
