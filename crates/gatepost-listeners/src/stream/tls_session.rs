//! One encrypted connection in one shared reference.
//!
//! The listeners' [`Stream`](super::Stream) is written to from other tasks, without waiting, so a
//! TLS session is too: the state of rustls is guarded by a lock that is held for the length of one
//! read or write, never across an await. Plain sockets have no lock.
//!
//! Invariants:
//! - Records are written in the order in which they were sealed: records that wait are always
//!   written first.
//! - A write accepts more bytes only after everything sealed earlier has been written. If the
//!   socket fills up with the last record of a write, the connection's own task is woken and writes
//!   the rest whenever it waits for reading or for writing, so no data stays unsent.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use rustls::Connection;
use tokio::net::{TcpStream, UnixStream};

use super::common_name;

/// Plaintext sealed at once. Four full records: enough to fill a segment train, little enough
/// that a slow reader holds no more than this beyond the socket's own buffer.
const SEAL_BYTES: usize = 64 * 1024;

/// The socket below.
#[derive(Debug)]
pub(crate) enum TransportSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl TransportSocket {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Unix(stream) => stream.try_write_vectored(slices),
        }
    }

    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
        }
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
        }
    }
}

/// The socket as rustls reads and writes it.
struct RustlsSocket<'a>(&'a TransportSocket);

impl Read for RustlsSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for RustlsSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that speaks TLS.
#[derive(Debug)]
pub struct TlsSession {
    socket: TransportSocket,
    /// Whether a client's certificate logs it in.
    client_is_user: bool,
    state: Mutex<TlsSessionState>,
}

#[derive(Debug)]
struct TlsSessionState {
    connection: Connection,
    /// The connection's own task, from its last wait.
    owner: Option<Waker>,
}

fn would_block<T>() -> io::Result<T> {
    Err(io::ErrorKind::WouldBlock.into())
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl TlsSessionState {
    /// Writes sealed records; `WouldBlock` if some remain.
    fn drain(&mut self, socket: &TransportSocket) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut RustlsSocket(socket))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Reads records once and opens them; `Ok(false)` at the socket's end. An alert is sent before
    /// an error is returned.
    fn fill(&mut self, socket: &TransportSocket) -> io::Result<bool> {
        let read = self.connection.read_tls(&mut RustlsSocket(socket))?;
        if let Err(error) = self.connection.process_new_packets() {
            let _ = self.drain(socket);
            return Err(broken(error));
        }
        match self.drain(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(read > 0),
        }
    }
}

impl TlsSession {
    pub(crate) fn new(
        socket: TransportSocket,
        mut connection: Connection,
        client_is_user: bool,
    ) -> Self {
        connection.set_buffer_limit(Some(SEAL_BYTES));
        Self {
            socket,
            client_is_user,
            state: Mutex::new(TlsSessionState {
                connection,
                owner: None,
            }),
        }
    }

    /// Drives the handshake to its end.
    pub(crate) fn poll_handshake(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut state = self.state.lock();
            match state.drain(&self.socket) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(state);
                    ready!(self.socket.poll_write_ready(context))?;
                    continue;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            if !state.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            match state.fill(&self.socket) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(state);
                    ready!(self.socket.poll_read_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Reads the available bytes; `WouldBlock` if there are none, `Ok(0)` at the end. An end
    /// without TLS's close_notify is accepted: every protocol of the listeners marks the end of its
    /// messages itself, so a truncated message is detected.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        loop {
            match state.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            state.fill(&self.socket)?;
        }
    }

    /// Seals and writes as many bytes as the socket accepts; `WouldBlock` if it accepts none.
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.drain(&self.socket)?;
        let mut accepted = 0;
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        while accepted < total {
            let sealed = seal(&mut state.connection, slices, accepted)?;
            accepted += sealed;
            match state.drain(&self.socket) {
                Ok(()) if sealed > 0 => {}
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(owner) = state.owner.take() {
                        owner.wake();
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if accepted == 0 && total > 0 {
            return would_block();
        }
        Ok(accepted)
    }

    /// Waits for bytes to read, the end, or an error; writes sealed records meanwhile.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        {
            let mut state = self.state.lock();
            state.owner = Some(context.waker().clone());
            let readable = state.connection.process_new_packets().map_err(broken)?;
            if readable.plaintext_bytes_to_read() > 0 || readable.peer_has_closed() {
                return Poll::Ready(Ok(()));
            }
        }
        // Pending means that this task is woken for writing; it waits for reading as well.
        if let Poll::Ready(Err(error)) = self.poll_drain(context) {
            return Poll::Ready(Err(error));
        }
        self.socket.poll_read_ready(context)
    }

    /// Waits until the socket can be written, or for an error.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        self.socket.poll_write_ready(context)
    }

    /// Waits until everything sealed has left.
    pub(crate) fn poll_drain(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.state.lock().drain(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.socket.poll_write_ready(context))?;
        }
    }

    /// Sends TLS's close_notify and closes the socket's writing side.
    pub(crate) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.lock().connection.send_close_notify();
        ready!(self.poll_drain(context))?;
        let socket = socket2::SockRef::from(self);
        Poll::Ready(socket.shutdown(std::net::Shutdown::Write))
    }

    /// The common name of the client's certificate, which was verified; `None` without one.
    pub fn client_name(&self) -> Option<String> {
        let state = self.state.lock();
        common_name::of(state.connection.peer_certificates()?.first()?)
    }

    /// The user that the client's certificate logs in, if the settings enable that.
    pub fn user(&self) -> Option<String> {
        self.client_is_user.then(|| self.client_name()).flatten()
    }

    /// Whether ALPN chose HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        self.state.lock().connection.alpn_protocol() == Some(b"h2")
    }

    /// Protocol version and cipher suite, for logs and Received fields: `TLS1.3 with …`.
    pub fn description(&self) -> String {
        let state = self.state.lock();
        let version = match state.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLS1.2",
            _ => "TLS1.3",
        };
        let suite = state.connection.negotiated_cipher_suite();
        match suite.and_then(|suite| suite.suite().as_str()) {
            Some(suite) => format!("{version} with {suite}"),
            None => version.to_owned(),
        }
    }
}

/// Seals plaintext from `skip` on, as much as the buffer of rustls holds.
fn seal(connection: &mut Connection, slices: &[IoSlice<'_>], mut skip: usize) -> io::Result<usize> {
    // Small pieces, such as packets of MQTT, share a record: one seal instead of many.
    let mut rest: smallvec::SmallVec<[IoSlice<'_>; 16]> = smallvec::SmallVec::new();
    let mut room = SEAL_BYTES;
    for slice in slices {
        let piece = slice.get(skip.min(slice.len())..).unwrap_or_default();
        skip = skip.saturating_sub(slice.len());
        let piece = piece.get(..piece.len().min(room)).unwrap_or_default();
        room -= piece.len();
        if !piece.is_empty() {
            rest.push(IoSlice::new(piece));
        }
        if room == 0 {
            break;
        }
    }
    connection.writer().write_vectored(&rest)
}

impl AsFd for TlsSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            TransportSocket::Tcp(stream) => stream.as_fd(),
            TransportSocket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Drop for TlsSession {
    /// A connection that is dropped without close_notify sends it, if the socket accepts it.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.connection.send_close_notify();
        let _ = state.drain(&self.socket);
    }
}
