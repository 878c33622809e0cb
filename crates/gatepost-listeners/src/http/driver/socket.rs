//! The listeners' stream as the runtime's reader and writer, which know when a short read or write
//! means that the socket is drained, and avoid the system call that would only confirm it.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gatepost_pages::MemoryFile;
use rustix::fs::sendfile;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::sending::NonblockingSocket;
use crate::lazy_stream::LazyStream;
use crate::stream::Stream;
use crate::stream::TlsSession;

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(session) => loop {
                match session.try_read(buffer.initialize_unfilled()) {
                    Ok(count) => {
                        buffer.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
                ready!(session.poll_read_ready(context))?;
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(session) => poll_write_tls(session, context, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(session) => poll_write_tls(session, context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(session) => session.poll_drain(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(session) => session.poll_shutdown(context),
        }
    }
}

/// A stream for the task that is polled, which is woken when the socket can be written again.
pub(super) struct PolledSocket<'a, 'c> {
    stream: &'a mut Stream,
    task: &'a mut Context<'c>,
}

impl<'a, 'c> PolledSocket<'a, 'c> {
    pub(super) const fn new(stream: &'a mut Stream, task: &'a mut Context<'c>) -> Self {
        Self { stream, task }
    }

    /// Tries on TCP, as long as the socket accepts bytes.
    fn try_tcp(
        &mut self,
        mut act: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Stream::Tcp(stream) = &*self.stream else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        loop {
            match stream.poll_write_ready(self.task) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
            }
            match stream.try_io(Interest::WRITABLE, || act(stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

impl NonblockingSocket for PolledSocket<'_, '_> {
    fn sends_files(&self) -> bool {
        matches!(self.stream, Stream::Tcp(_))
    }

    fn write(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        if more {
            return self.try_tcp(|stream| write_more(stream, slices));
        }
        match Pin::new(&mut *self.stream).poll_write_vectored(self.task, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn send_file(&mut self, file: &MemoryFile, start: u64, length: usize) -> io::Result<usize> {
        self.try_tcp(|stream| send_file(stream, file, start, length))
    }
}

/// A connection that is not registered with a reactor yet.
impl NonblockingSocket for &LazyStream {
    fn sends_files(&self) -> bool {
        // Called only for plain connections; a Unix socket's write accepts no more than a TCP
        // socket's.
        self.is_unregistered_tcp()
    }

    fn write(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        if more {
            write_more(self.descriptor()?, slices)
        } else {
            self.try_write(slices)
        }
    }

    fn send_file(&mut self, file: &MemoryFile, start: u64, length: usize) -> io::Result<usize> {
        send_file(self.descriptor()?, file, start, length)
    }
}

/// Writes bytes that the kernel sends together with the following ones.
fn write_more(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    let mut nothing_else = SendAncillaryBuffer::default();
    Ok(sendmsg(socket, slices, &mut nothing_else, flags)?)
}

fn send_file(
    socket: impl AsFd,
    file: &MemoryFile,
    mut start: u64,
    length: usize,
) -> io::Result<usize> {
    Ok(sendfile(socket, file, Some(&mut start), length)?)
}

fn poll_write_tls(
    session: &TlsSession,
    context: &mut Context<'_>,
    slices: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    loop {
        match session.try_write(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return Poll::Ready(written),
        }
        ready!(session.poll_write_ready(context))?;
    }
}
