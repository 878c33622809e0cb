//! The message after DATA: finds its end, removes dot-stuffing, and detects violations.
//!
//! Only CR LF `.` CR LF ends a message. A CR or LF on its own never does, and makes the message be
//! refused, since another server on the way may treat it as a line end: SMTP smuggling exploits
//! that difference. The receiver accepts any split of the input and keeps its state between; it
//! works on whole lines with `memchr`, not byte by byte.

use memchr::{memchr, memchr2};

use super::replies;
use super::reply::SmtpReply;

/// Receives one message.
#[derive(Debug)]
pub(super) struct DataReceiver {
    message: Vec<u8>,
    size_max: usize,
    line_max: usize,
    /// The start of the current line in `message`.
    line_start: usize,
    state: LineState,
    /// The first violation; the protocol reports it after the end.
    refusal: Option<SmtpReply>,
}

/// The position of the input within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    LineStart,
    /// A dot at the start of a line: stuffing, or the end.
    Dot,
    DotCr,
    Middle,
    Cr,
}

/// The result of [`DataReceiver::receive`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DataProgress {
    /// All input was consumed; the message continues.
    More,
    /// The message ended after `consumed` bytes of the input.
    End { consumed: usize },
}

impl DataReceiver {
    pub(super) fn new(size_max: usize, line_max: usize) -> Self {
        Self {
            message: Vec::new(),
            size_max,
            line_max,
            line_start: 0,
            state: LineState::LineStart,
            refusal: None,
        }
    }

    /// The message, or the reply that refuses it.
    pub(super) fn finish(self) -> Result<Vec<u8>, SmtpReply> {
        match self.refusal {
            None => Ok(self.message),
            Some(refusal) => Err(refusal),
        }
    }

    /// Consumes the next piece of input.
    pub(super) fn receive(&mut self, input: &[u8]) -> DataProgress {
        if self.refusal.is_none() {
            // Growing line by line would reallocate many times.
            self.message.reserve(input.len().min(self.size_max));
        }
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            match (self.state, byte) {
                (LineState::LineStart, b'.') => {
                    self.state = LineState::Dot;
                    at += 1;
                }
                (LineState::Dot, b'\r') => {
                    self.state = LineState::DotCr;
                    at += 1;
                }
                (LineState::DotCr, b'\n') => return DataProgress::End { consumed: at + 1 },
                (LineState::DotCr, _) => {
                    // The dot was stuffing, and the CR stood alone.
                    self.push(b"\r");
                    self.refuse(replies::BARE_NEWLINE_IN_DATA);
                    self.state = LineState::Middle;
                }
                (LineState::Cr, b'\n') => {
                    self.push(b"\r\n");
                    self.line_start = self.message.len();
                    self.state = LineState::LineStart;
                    at += 1;
                }
                (LineState::Cr, _) => {
                    self.push(b"\r");
                    self.refuse(replies::BARE_NEWLINE_IN_DATA);
                    self.state = LineState::Middle;
                }
                (LineState::LineStart | LineState::Dot | LineState::Middle, _) => {
                    at += self.text(&input[at..]);
                }
            }
        }
        DataProgress::More
    }

    /// Consumes text up to and including the next CR or LF; returns the number of bytes. The dot of
    /// a stuffed line was removed before.
    fn text(&mut self, input: &[u8]) -> usize {
        self.state = LineState::Middle;
        let Some(end) = memchr2(b'\r', b'\n', input) else {
            self.push(input);
            return input.len();
        };
        self.push(&input[..end]);
        if input[end] == b'\r' {
            self.state = LineState::Cr;
        } else {
            self.push(b"\n");
            self.refuse(replies::BARE_NEWLINE_IN_DATA);
        }
        end + 1
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.message.len() + bytes.len() > self.size_max {
            self.refuse(replies::MESSAGE_TOO_LARGE);
        } else if self.message.len() + bytes.len() - self.line_start > self.line_max {
            self.refuse(replies::TEXT_LINE_TOO_LONG);
        }
        // A refused message is read to its end, but not kept.
        if self.refusal.is_none() {
            self.message.extend_from_slice(bytes);
        }
    }

    /// The number of bytes of the message that are held so far.
    pub(super) fn held_bytes(&self) -> u64 {
        self.message.len() as u64
    }

    /// Refuses the message at its end, and discards its data.
    pub(super) fn refuse(&mut self, reply: SmtpReply) {
        if self.refusal.is_none() {
            self.refusal = Some(reply);
            self.message = Vec::new();
            self.line_start = 0;
        }
    }
}

/// Checks that a message that came in chunks consists of lines: RFC 3030 exempts only BINARYMIME.
pub(super) fn check_lines(message: &[u8], line_max: usize) -> Result<(), SmtpReply> {
    let mut line_start = 0;
    let mut at = 0;
    while let Some(found) = memchr2(b'\r', b'\n', message.get(at..).unwrap_or_default()) {
        let end = at + found;
        if message.get(end..end + 2) != Some(b"\r\n") {
            return Err(replies::BARE_NEWLINE_IN_DATA);
        }
        if end + 2 - line_start > line_max {
            return Err(replies::TEXT_LINE_TOO_LONG);
        }
        at = end + 2;
        line_start = at;
    }
    if message.len() - line_start > line_max {
        return Err(replies::TEXT_LINE_TOO_LONG);
    }
    Ok(())
}

/// The numbers of a message's header fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FieldCounts {
    /// All fields, up to the first line that is none.
    pub(super) all: usize,
    /// The Received fields: each hop adds one, a loop adds many.
    pub(super) received: usize,
}

/// Counts the header fields of a message.
pub(super) fn count_fields(message: &[u8]) -> FieldCounts {
    let mut counts = FieldCounts::default();
    let mut is_head = true;
    let mut rest = message;
    while !rest.is_empty() && !rest.starts_with(b"\r\n") {
        let end = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (line, remainder) = rest.split_at(end);
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            is_head &= is_field(line);
            counts.all += usize::from(is_head);
            let is_received = line
                .get(..9)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"Received:"));
            counts.received += usize::from(is_received);
        }
        rest = remainder;
    }
    counts
}

/// RFC 5322, section 2.2: a name of printable characters, and a colon.
fn is_field(line: &[u8]) -> bool {
    let name = memchr(b':', line).and_then(|colon| line.get(..colon));
    let name = name.unwrap_or_default().trim_ascii_end();
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receive(input: &[u8]) -> (Option<usize>, Result<Vec<u8>, SmtpReply>) {
        let mut receiver = DataReceiver::new(1_000, 200);
        let consumed = match receiver.receive(input) {
            DataProgress::More => None,
            DataProgress::End { consumed } => Some(consumed),
        };
        (consumed, receiver.finish())
    }

    #[test]
    fn only_a_dot_between_two_line_ends_ends_a_message() {
        let (consumed, message) = receive(b"a\r\n..b\r\n...\r\n.\r\nQUIT\r\n");
        assert_eq!(consumed, Some(16));
        assert_eq!(message, Ok(b"a\r\n.b\r\n..\r\n".to_vec()));
        assert_eq!(receive(b".\r\n"), (Some(3), Ok(Vec::new())));
    }

    /// The variants that made servers disagree about where a message ends.
    #[test]
    fn smuggled_ends_are_no_ends_and_refuse_the_message() {
        for smuggled in [
            "\n.\n",
            "\n.\r\n",
            "\r.\r",
            "\r\n.\n",
            "\r\n.\r",
            "\r.\r\n",
            "\r\n.\r\r\n",
            "\n.\r",
        ] {
            let input = format!("a{smuggled}MAIL FROM:<b@c>\r\n.\r\n");
            let (consumed, message) = receive(input.as_bytes());
            assert_eq!(consumed, Some(input.len()), "{smuggled:?}");
            assert_eq!(message, Err(replies::BARE_NEWLINE_IN_DATA), "{smuggled:?}");
        }
    }

    #[test]
    fn limits_are_reported_after_the_end() {
        let large = [b"x".repeat(100), b"\r\n".to_vec()].concat().repeat(11);
        assert_eq!(
            receive(&[&large[..], b".\r\n"].concat()).1,
            Err(replies::MESSAGE_TOO_LARGE)
        );
        let long = [&b"x".repeat(300)[..], b"\r\n.\r\n"].concat();
        assert_eq!(receive(&long).1, Err(replies::TEXT_LINE_TOO_LONG));
    }

    #[test]
    fn chunks_of_lines_are_distinguished_from_others() {
        assert_eq!(check_lines(b"a\r\nb", 10), Ok(()));
        assert_eq!(check_lines(b"", 10), Ok(()));
        for odd in ["a\nb", "a\rb", "\r", "a\r\r\n"] {
            assert_eq!(
                check_lines(odd.as_bytes(), 10),
                Err(replies::BARE_NEWLINE_IN_DATA),
                "{odd:?}"
            );
        }
        for long in ["123456789\r\n", "a\r\n12345678901"] {
            assert_eq!(
                check_lines(long.as_bytes(), 10),
                Err(replies::TEXT_LINE_TOO_LONG),
                "{long:?}"
            );
        }
    }

    #[test]
    fn fields_of_the_head_are_counted() {
        let message = b"Received: a\r\nReceived: b\r\n c\r\nSubject: x\r\nreceived: d\r\n\r\n\
            Received: no\r\n";
        let counts = |all, received| FieldCounts { all, received };
        assert_eq!(count_fields(message), counts(4, 3));
        assert_eq!(count_fields(b""), counts(0, 0));
        assert_eq!(
            count_fields(b"a log of lines\r\nat 10:30\r\n"),
            counts(0, 0)
        );
        assert_eq!(count_fields(b"A: b"), counts(1, 0));
    }

    proptest! {
        /// Any message survives stuffing, sending in any pieces, and receiving.
        #[test]
        fn any_split_gives_the_same_message(
            lines in proptest::collection::vec("[.a-z]{0,5}", 0..20),
            piece in 1_usize..7,
        ) {
            let message: String = lines.iter().flat_map(|line| [line.as_str(), "\r\n"]).collect();
            let stuffed: String = lines
                .iter()
                .map(|line| {
                    if line.starts_with('.') {
                        format!(".{line}\r\n")
                    } else {
                        format!("{line}\r\n")
                    }
                })
                .collect();
            let wire = format!("{stuffed}.\r\n");
            let mut receiver = DataReceiver::new(10_000, 1_000);
            let mut ended = false;
            for piece in wire.as_bytes().chunks(piece) {
                prop_assert!(!ended);
                ended = matches!(receiver.receive(piece), DataProgress::End { .. });
            }
            prop_assert!(ended);
            prop_assert_eq!(receiver.finish(), Ok(message.into_bytes()));
        }

        #[test]
        fn any_bytes_in_any_split_mean_the_same(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'.'), Just(b'a')],
                0..60,
            ),
            at in 0_usize..60,
        ) {
            let mut whole = DataReceiver::new(1_000, 100);
            let expected = whole.receive(&bytes);
            let at = at.min(bytes.len());
            let mut split = DataReceiver::new(1_000, 100);
            let found = match split.receive(&bytes[..at]) {
                DataProgress::End { consumed } => DataProgress::End { consumed },
                DataProgress::More => match split.receive(&bytes[at..]) {
                    DataProgress::More => DataProgress::More,
                    DataProgress::End { consumed } => DataProgress::End { consumed: at + consumed },
                },
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!(split.finish(), whole.finish());
        }
    }
}
