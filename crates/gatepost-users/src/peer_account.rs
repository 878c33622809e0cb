//! The account of this machine whose program is at the other end of a connection.
//!
//! A loopback address does not prove that a peer acts for itself: a reverse proxy connects from
//! 127.0.0.1 for clients of other machines, often without saying so. Its account shows this:
//! proxies run as service accounts. The kernel knows the owner of every TCP socket of this
//! machine, and gives it to every process that asks with both of the connection's addresses
//! (`NETLINK_SOCK_DIAG`, sock_diag(7)); of a Unix socket it knows the peer's credentials.
//!
//! Invariants:
//! - If the account cannot be determined, the peer does not count as a program of this machine. The
//!   kernel names root as the owner of a socket that its program has closed; such a socket has no
//!   inode, by which the two differ.
//! - The kernel is queried at most once per connection, and only when the account matters.
//! - A thread keeps its socket to the kernel, which saves half of the system calls of a question.
//!   After an error it opens another one, so that no answer is taken for that of a later question;
//!   the addresses in each answer are compared, too.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use gatepost_message::Peer;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, getpeername, getsockname,
    netlink, recv, send, socket_with, sockopt,
};

use crate::peer_origin::is_this_machine;

/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 16 + 56;
/// `struct nlmsghdr` and `struct inet_diag_msg`; attributes may follow.
const ANSWER_BYTES: usize = 16 + 72;
/// `SOCK_DIAG_BY_FAMILY`, the type of request and answer, and `NLM_F_REQUEST`.
const BY_FAMILY: u16 = 20;
const REQUEST_FLAG: u16 = 1;
const PROTOCOL_TCP: u8 = 6;
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;
/// `INET_DIAG_NOCOOKIE`, and all states of a TCP connection.
const ANY: u32 = u32::MAX;

/// The account at the other end of a connection. Cheap to clone; the clones share the answer.
#[derive(Clone)]
pub struct PeerAccount(AccountSource);

#[derive(Clone)]
enum AccountSource {
    Unknown,
    Vouched,
    Tcp(Arc<LoopbackConnection>),
    Unix(u32),
}

/// A TCP connection by its addresses; both ends are on this machine.
struct LoopbackConnection {
    peer: SocketAddr,
    own: SocketAddr,
    owner: OnceLock<Option<u32>>,
}

impl PeerAccount {
    /// An account that cannot be determined: it never counts as local.
    pub const UNKNOWN: Self = Self(AccountSource::Unknown);

    /// The account of a client that a trusted proxy names: the address that it gives decides alone.
    pub const VOUCHED: Self = Self(AccountSource::Vouched);

    /// The account at the other end of this socket's connection to `peer`. The kernel is queried
    /// later.
    pub fn of(peer: Peer, socket: BorrowedFd<'_>) -> Self {
        if is_this_machine(peer) {
            Self(source(socket).unwrap_or(AccountSource::Unknown))
        } else {
            Self::UNKNOWN
        }
    }

    /// Whether the account counts as local if `is_local` says so of its number.
    pub(crate) fn satisfies(&self, is_local: impl FnOnce(u32) -> bool) -> bool {
        match &self.0 {
            AccountSource::Vouched => true,
            _ => self.number().is_some_and(is_local),
        }
    }

    /// The account's number; `None` where it is not known. Asks the kernel the first time.
    pub(crate) fn number(&self) -> Option<u32> {
        match &self.0 {
            AccountSource::Unknown | AccountSource::Vouched => None,
            AccountSource::Unix(number) => Some(*number),
            AccountSource::Tcp(connection) => *connection.owner.get_or_init(|| {
                owner_of(connection.peer, connection.own).unwrap_or_else(|error| {
                    tracing::debug!(
                        target: "users", peer = %connection.peer, %error,
                        "the kernel does not name the peer's account"
                    );
                    None
                })
            }),
        }
    }
}

impl fmt::Debug for PeerAccount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PeerAccount")
    }
}

fn source(socket: BorrowedFd<'_>) -> io::Result<AccountSource> {
    let own = getsockname(socket)?;
    if own.address_family() == AddressFamily::UNIX {
        return Ok(AccountSource::Unix(
            sockopt::socket_peercred(socket)?.uid.as_raw(),
        ));
    }
    // Not the address that a PROXY header names.
    let peer = getpeername(socket)?.ok_or(io::ErrorKind::NotConnected)?;
    Ok(AccountSource::Tcp(Arc::new(LoopbackConnection {
        peer: canonical(peer.try_into()?),
        own: canonical(own.try_into()?),
        owner: OnceLock::new(),
    })))
}

/// With IPv4 addresses as such, also where an IPv6 socket serves them.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

thread_local! {
    /// The thread's socket to the kernel.
    static KERNEL: Cell<Option<OwnedFd>> = const { Cell::new(None) };
}

/// The owner of the socket at `peer` that is connected to `own`; `None` if there is none, or none
/// any more. An error means that the kernel cannot say.
fn owner_of(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    let Some(request) = request(peer, own) else {
        return Ok(None);
    };
    let kernel = match KERNEL.take() {
        Some(kernel) => kernel,
        None => socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(netlink::SOCK_DIAG),
        )?,
    };
    // The kernel answers while it takes the request, so nothing has to be waited for.
    send(&kernel, &request, SendFlags::empty())?;
    let mut answer = [0; 512];
    let (_, length) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
    KERNEL.set(Some(kernel));
    Ok(owner_in(
        answer.get(..length).unwrap_or_default(),
        peer,
        own,
    ))
}

/// The question for one socket, in the kernel's layout; `None` where one end is IPv4 and the other
/// IPv6.
fn request(socket: SocketAddr, connected_to: SocketAddr) -> Option<[u8; REQUEST_BYTES]> {
    let family = match (socket, connected_to) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => FAMILY_IPV4,
        (SocketAddr::V6(_), SocketAddr::V6(_)) => FAMILY_IPV6,
        _ => return None,
    };
    let mut request = Vec::with_capacity(REQUEST_BYTES);
    // struct nlmsghdr: length, type, flags, sequence, port.
    request.extend((REQUEST_BYTES as u32).to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_FLAG.to_ne_bytes());
    request.extend([0; 8]);
    // struct inet_diag_req_v2: family, protocol, extensions, padding, states, then the socket.
    request.extend([family, PROTOCOL_TCP, 0, 0]);
    request.extend(ANY.to_ne_bytes());
    request.extend(socket.port().to_be_bytes());
    request.extend(connected_to.port().to_be_bytes());
    request.extend(address_bytes(socket.ip()));
    request.extend(address_bytes(connected_to.ip()));
    // The interface, and the cookie in two halves.
    request.extend(0_u32.to_ne_bytes());
    request.extend(ANY.to_ne_bytes());
    request.extend(ANY.to_ne_bytes());
    request.try_into().ok()
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            for (byte, octet) in bytes.iter_mut().zip(address.octets()) {
                *byte = octet;
            }
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// Reads the answer: the owner, where it is of exactly this socket and a program holds it.
fn owner_in(answer: &[u8], socket: SocketAddr, connected_to: SocketAddr) -> Option<u32> {
    let header: [u8; 2] = answer.get(4..6)?.try_into().ok()?;
    // An error message otherwise: there is no such socket.
    if u16::from_ne_bytes(header) != BY_FAMILY || answer.len() < ANSWER_BYTES {
        return None;
    }
    let found = answer.get(16..)?;
    let family = *found.first()?;
    // Where no connection matches, the kernel names a socket that listens on the port.
    let ends = [
        (address_in(found, family, 4, 8)?, socket),
        (address_in(found, family, 6, 24)?, connected_to),
    ];
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(found.get(at..at + 4)?.try_into().ok()?))
    };
    let (owner, inode) = (number(64)?, number(68)?);
    let is_held = inode != 0;
    (is_held && ends.iter().all(|(found, requested)| found == requested)).then_some(owner)
}

fn address_in(found: &[u8], family: u8, port_at: usize, ip_at: usize) -> Option<SocketAddr> {
    let port: [u8; 2] = found.get(port_at..port_at + 2)?.try_into().ok()?;
    let ip = if family == FAMILY_IPV4 {
        let octets: [u8; 4] = found.get(ip_at..ip_at + 4)?.try_into().ok()?;
        IpAddr::from(Ipv4Addr::from(octets))
    } else {
        let octets: [u8; 16] = found.get(ip_at..ip_at + 16)?.try_into().ok()?;
        IpAddr::from(Ipv6Addr::from(octets))
    };
    let address = SocketAddr::new(ip, u16::from_be_bytes(port));
    Some(canonical(address))
}

/// Whether the kernel names the owners of connections, tried with a connection of this process.
pub fn accounts_are_known() -> bool {
    let tried = || -> io::Result<Option<u32>> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        owner_of(client.local_addr()?, client.peer_addr()?)
    };
    matches!(tried(), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::geteuid;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Our end and the peer's end of a connection to `connect`, of a listener on `listen`.
    fn connection(listen: &str, connect: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((listen, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let peer = TcpStream::connect((connect, port)).expect("connected");
        (listener.accept().expect("accepted").0, peer)
    }

    fn account_of(own: &TcpStream) -> PeerAccount {
        let peer = Peer::Address(own.peer_addr().expect("connected"));
        PeerAccount::of(peer, own.as_fd())
    }

    #[test]
    fn the_kernel_names_the_owner_over_every_kind_of_loopback() {
        let expected = Some(geteuid().as_raw());
        for (listen, connect) in [
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.9"),
            ("::1", "::1"),
            ("::", "127.0.0.1"),
            ("127.0.0.1", "::ffff:127.0.0.1"),
        ] {
            let (own, peer) = connection(listen, connect);
            let account = account_of(&own);
            assert_eq!(account.number(), expected, "{listen} {connect}");
            // A half-closed connection still belongs to its program.
            peer.shutdown(Shutdown::Write).expect("open");
            let account = account_of(&own);
            assert_eq!(account.number(), expected, "{listen} {connect}");
        }
        assert!(accounts_are_known());
    }

    #[test]
    fn a_connection_that_its_program_has_closed_has_no_account() {
        // The kernel says root of it: a proxy whose client has gone would be the administrator.
        let (own, peer) = connection("127.0.0.1", "127.0.0.1");
        let late = account_of(&own);
        let early = account_of(&own);
        let expected = Some(geteuid().as_raw());
        assert_eq!(early.number(), expected);
        drop(peer);
        assert_eq!(late.number(), None);
        assert_eq!(early.clone().number(), expected, "queried once");
        assert!(!late.satisfies(|_| true));
    }

    #[test]
    fn a_listening_socket_is_not_taken_for_the_peer() {
        let (own, _peer) = connection("127.0.0.1", "127.0.0.1");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let listening = listener.local_addr().expect("an address");
        let own = own.local_addr().expect("an address");
        assert_eq!(owner_of(listening, own).expect("an answer"), None);
    }

    #[test]
    fn a_unix_socket_has_its_peers_credentials() {
        let (own, _peer) = UnixStream::pair().expect("a pair");
        let account = PeerAccount::of(Peer::Local, own.as_fd());
        assert_eq!(account.number(), Some(geteuid().as_raw()));
    }

    #[test]
    fn a_socket_without_a_peer_has_no_account() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let account = PeerAccount::of(Peer::Local, listener.as_fd());
        assert_eq!(account.number(), None);
        assert!(!PeerAccount::UNKNOWN.satisfies(|_| true));
        assert!(PeerAccount::VOUCHED.satisfies(|_| false));
    }

    #[test]
    fn malformed_answers_name_no_account() {
        let (one, two) = (
            "127.0.0.1:1".parse().expect("valid"),
            "127.0.0.1:2".parse().expect("valid"),
        );
        let mut answer = vec![0; ANSWER_BYTES];
        for length in 0..answer.len() {
            assert_eq!(owner_in(&answer[..length], one, two), None);
        }
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert_eq!(owner_in(&answer, one, two), None, "another socket");
    }
}
