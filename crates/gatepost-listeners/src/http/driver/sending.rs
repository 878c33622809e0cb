//! Bytes for a socket: written, or sent by the kernel from a file.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use gatepost_pages::MemoryFile;
use smallvec::SmallVec;

/// Enough for most batches in one system call; the kernel takes 1024.
const SLICES_PER_WRITE: usize = 64;

/// A socket that never waits: it accepts as many bytes as fit, or returns `WouldBlock`.
pub(super) trait NonblockingSocket {
    /// Whether [`NonblockingSocket::send_file`] is supported; otherwise everything is written.
    fn sends_files(&self) -> bool;

    /// Writes. `more` means that further bytes follow immediately, so that the kernel does not send
    /// a separate packet.
    fn write(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize>;

    /// Sends `length` bytes of a file from `start` on.
    fn send_file(&mut self, file: &MemoryFile, start: u64, length: usize) -> io::Result<usize>;
}

/// A piece of the bytes to send.
#[derive(Clone, Copy)]
pub(super) struct SendBuffer<'a> {
    pub(super) bytes: &'a [u8],
    /// The file that also contains the bytes.
    pub(super) file: Option<(&'a MemoryFile, u64)>,
}

impl SendBuffer<'_> {
    /// The rest after the first `count` bytes.
    fn after(self, count: usize) -> Self {
        Self {
            bytes: self.bytes.get(count..).unwrap_or_default(),
            file: self.file.map(|(file, start)| (file, start + count as u64)),
        }
    }
}

/// Sends as much of `parts` as one system call can, after the first `skipped` bytes, which have
/// been sent already; returns the number of bytes that were accepted, which is 0 only if there were
/// none.
pub(super) fn send_some<'a>(
    parts: impl Iterator<Item = SendBuffer<'a>>,
    mut skipped: usize,
    outlet: &mut impl NonblockingSocket,
) -> io::Result<usize> {
    let mut slices: SmallVec<[IoSlice<'_>; SLICES_PER_WRITE]> = SmallVec::new();
    let mut is_followed = false;
    for part in parts {
        let part = part.after(std::mem::take(&mut skipped));
        if let Some((file, start)) = part.file.filter(|_| outlet.sends_files()) {
            if slices.is_empty() {
                return taken(outlet.send_file(file, start, part.bytes.len())?);
            }
            is_followed = true;
            break;
        }
        if slices.len() == SLICES_PER_WRITE {
            break;
        }
        slices.push(IoSlice::new(part.bytes));
    }
    if slices.is_empty() {
        return Ok(0);
    }
    taken(outlet.write(&slices, is_followed)?)
}

fn taken(count: usize) -> io::Result<usize> {
    if count == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(count)
}

/// Bytes that wait for a socket.
#[derive(Debug, Clone)]
pub(super) struct SendChunk {
    pub(super) bytes: Bytes,
    pub(super) file: Option<(Arc<MemoryFile>, u64)>,
}

impl From<Bytes> for SendChunk {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, file: None }
    }
}

impl SendChunk {
    pub(super) fn part(&self) -> SendBuffer<'_> {
        let file = self.file.as_ref();
        SendBuffer {
            bytes: &self.bytes,
            file: file.map(|(file, start)| (&**file, *start)),
        }
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some((_, start)) = &mut self.file {
            *start += count as u64;
        }
    }
}

/// Bytes that the socket has not accepted yet, in order.
pub(super) type UnsentChunks = VecDeque<SendChunk>;

/// Sends as many waiting bytes as one system call can; returns their number.
pub(super) fn send_unsent(
    unsent: &mut UnsentChunks,
    outlet: &mut impl NonblockingSocket,
) -> io::Result<usize> {
    let all_sent = send_some(unsent.iter().map(SendChunk::part), 0, outlet)?;
    let mut sent = all_sent;
    while let Some(chunk) = unsent.front_mut() {
        if sent < chunk.bytes.len() {
            chunk.advance(sent);
            break;
        }
        sent -= chunk.bytes.len();
        unsent.pop_front();
    }
    Ok(all_sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::driver::output::Output;
    use gatepost_pages::{
        CompiledPage, PageOutput, Pages, PagesSettings, PathContent, ValueSource,
    };

    struct NoValues;

    impl ValueSource for NoValues {
        fn latest(&self, _: &str) -> Option<Arc<gatepost_message::Publication>> {
            None
        }

        fn history(
            &self,
            _: &gatepost_message::TopicFilter,
            _: usize,
        ) -> Vec<Arc<gatepost_message::Publication>> {
            Vec::new()
        }

        fn call(
            &self,
            call: &gatepost_pages::PageCall<'_>,
        ) -> Result<gatepost_pages::ProcedureResponse, gatepost_pages::CallError> {
            Err(gatepost_pages::CallError::Unknown(call.path.to_owned()))
        }
    }

    /// Accepts this many bytes at a time, and refuses every second write.
    struct Trickle {
        room: usize,
        is_full: bool,
        files: bool,
        taken: Vec<u8>,
        from_files: usize,
    }

    impl Trickle {
        fn take(&mut self, bytes: &[u8]) -> usize {
            let count = bytes.len().min(self.room);
            self.taken.extend_from_slice(&bytes[..count]);
            count
        }

        fn refuse_each_second(&mut self) -> io::Result<()> {
            self.is_full = !self.is_full;
            if self.is_full {
                Ok(())
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    impl NonblockingSocket for Trickle {
        fn sends_files(&self) -> bool {
            self.files
        }

        fn write(&mut self, slices: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
            self.refuse_each_second()?;
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            Ok(self.take(&all))
        }

        fn send_file(&mut self, file: &MemoryFile, start: u64, length: usize) -> io::Result<usize> {
            use std::os::fd::AsFd;
            self.refuse_each_second()?;
            let mut bytes = vec![0; length];
            let mut at = start;
            let read = rustix::io::pread(file.as_fd(), &mut bytes, at)?;
            at += read as u64;
            assert_eq!(at, start + length as u64, "the file holds all of it");
            let taken = self.take(&bytes);
            self.from_files += taken;
            Ok(taken)
        }
    }

    #[test]
    fn every_byte_arrives_once_and_in_order_whatever_the_socket_takes() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = "0123456789".repeat(150);
        let source = format!("<{{{{ now() }}}}>{long}{{{{ now() }}}}{long}");
        std::fs::write(folder.path().join("page.html"), source).expect("a page");
        let settings = PagesSettings {
            path: folder.path().to_owned(),
            sendfile_min: gatepost_settings::ByteSize::kibibytes(1),
            ..PagesSettings::default()
        };
        let pages = Pages::new(settings, Arc::new(NoValues));
        let entry = pages.site(None).load("/page").expect("a page");
        let PathContent::Page(CompiledPage::Pieces(page)) = &entry.content else {
            panic!("it is made of pieces");
        };
        for (files, room) in (1..3_200)
            .step_by(7)
            .flat_map(|room| [(true, room), (false, room)])
        {
            let mut outlet = Trickle {
                room,
                is_full: false,
                files,
                taken: Vec::new(),
                from_files: 0,
            };
            let mut output = Output::default();
            page.render_at_once(pages.values(), false, &mut output);
            output.text(|text| text.extend_from_slice(b"the end"));
            let mut unsent = UnsentChunks::new();
            output.write(&mut unsent, &mut outlet).expect("no error");
            while !unsent.is_empty() {
                match send_unsent(&mut unsent, &mut outlet) {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            let text = String::from_utf8(outlet.taken).expect("text");
            let (first, rest) = text.split_once(&long).expect("the long text");
            let (second, rest) = rest.split_once(&long).expect("and again");
            assert!(first.starts_with('<') && first.ends_with('>'), "{first}");
            assert_eq!((second.len(), rest), (first.len() - 2, "the end"));
            // The angle bracket before the first of them belongs to the same part.
            let expected = if files { 2 * long.len() + 1 } else { 0 };
            assert_eq!(outlet.from_files, expected, "{room} bytes at a time");
        }
    }
}
