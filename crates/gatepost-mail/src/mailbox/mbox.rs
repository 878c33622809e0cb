//! The messages of one stream: an mbox, or a single message.

use std::io::BufRead;

use super::boundary::{is_boundary, read_line};

/// The division of a stream into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// The stream is one message.
    Single,
    /// A boundary after a blank line begins the next message.
    Mbox,
}

/// Iterates over the messages of a stream.
pub(super) struct MboxStream<R> {
    source: R,
    division: Division,
    message_max: usize,
    /// The boundary that ended the previous message and begins the next.
    boundary: Vec<u8>,
    ended: bool,
}

/// One message of a stream.
pub(super) struct MboxMessage {
    pub(super) bytes: Vec<u8>,
    pub(super) cut: bool,
    pub(super) source_bytes: u64,
}

impl<R: BufRead> MboxStream<R> {
    pub(super) fn new(source: R, division: Division, message_max: usize) -> Self {
        Self {
            source,
            division,
            message_max: message_max.max(1),
            boundary: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn division(&self) -> Division {
        self.division
    }

    /// The next message; `None` after the last.
    pub(super) fn next_piece(&mut self) -> std::io::Result<Option<MboxMessage>> {
        if self.ended {
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.boundary);
        let mut source_bytes = bytes.len() as u64;
        let mut cut = false;
        let mut after_blank = false;
        let mut line = Vec::new();
        loop {
            let taken = read_line(&mut self.source, &mut line, self.message_max)?;
            if taken == 0 {
                self.ended = true;
                break;
            }
            if self.division == Division::Mbox && after_blank && is_boundary(&line) {
                self.boundary = line;
                break;
            }
            after_blank = matches!(line.as_slice(), b"\n" | b"\r\n");
            source_bytes += taken;
            let room = self.message_max.saturating_sub(bytes.len());
            cut |= taken > line.len().min(room) as u64;
            bytes.extend_from_slice(line.get(..room).unwrap_or(&line));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        Ok(Some(MboxMessage {
            bytes,
            cut,
            source_bytes,
        }))
    }
}

/// Distinguishes an mbox from a single message by a second boundary. Reads up to that boundary, so
/// the source has to be opened again afterwards.
pub(super) fn detect(mut source: impl BufRead) -> std::io::Result<Division> {
    use super::boundary::BOUNDARY_LINE_MAX_BYTES;
    let mut line = Vec::new();
    let mut after_blank = false;
    read_line(&mut source, &mut line, BOUNDARY_LINE_MAX_BYTES)?;
    if !is_boundary(&line) {
        return Ok(Division::Single);
    }
    while read_line(&mut source, &mut line, BOUNDARY_LINE_MAX_BYTES)? > 0 {
        if after_blank && is_boundary(&line) {
            return Ok(Division::Mbox);
        }
        after_blank = matches!(line.as_slice(), b"\n" | b"\r\n");
    }
    Ok(Division::Single)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBOX: &[u8] = b"From a@b Sat Nov 21 04:16:24 2026\nSubject: 1\n\none\n\n\
        From a@b Sat Nov 21 04:16:25 2026\nSubject: 2\n\nFrom a@b we know\n>From x\n\n\
        From a@b Sat Nov 21 04:16:26 2026\nSubject: 3\n\nthree";

    fn pieces(source: &[u8], division: Division, max: usize) -> Vec<MboxMessage> {
        let mut stream = MboxStream::new(source, division, max);
        std::iter::from_fn(|| stream.next_piece().expect("slices cannot fail")).collect()
    }

    #[test]
    fn an_mbox_is_divided_at_its_boundaries() {
        assert_eq!(detect(MBOX).expect("reads"), Division::Mbox);
        let found = pieces(MBOX, Division::Mbox, 1 << 20);
        assert_eq!(found.len(), 3);
        assert!(found[1].bytes.ends_with(b">From x\n\n"));
        let joined: Vec<u8> = found.iter().flat_map(|piece| piece.bytes.clone()).collect();
        assert_eq!(joined, MBOX, "nothing is lost or added");
    }

    #[test]
    fn a_single_message_may_have_a_from_line() {
        let one = b"From a@b Sat Nov 21 04:16:24 2026\nSubject: 1\n\nFrom here on\n";
        assert_eq!(detect(&one[..]).expect("reads"), Division::Single);
        assert_eq!(pieces(one, Division::Single, 1 << 20).len(), 1);
    }

    #[test]
    fn long_messages_are_cut_and_still_divided() {
        let found = pieces(MBOX, Division::Mbox, 40);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|piece| piece.bytes.len() <= 40));
        assert!(found[0].cut);
        let total: u64 = found.iter().map(|piece| piece.source_bytes).sum();
        assert_eq!(total, MBOX.len() as u64);
    }
}
