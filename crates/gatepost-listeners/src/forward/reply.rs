//! Replies of a next hop: lines with one code, the last without a hyphen.

use bytes::BytesMut;
use memchr::memchr;

/// RFC 5321, section 4.5.3.1.5 has 512; some servers write more.
const LINE_BYTES_MAX: usize = 4_096;
/// No reasonable reply has more lines, including EHLO's.
const LINES_MAX: usize = 128;

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HopReply {
    pub(crate) code: u16,
    /// Without the code, with the enhanced code where there is one.
    pub(crate) lines: Vec<String>,
}

impl HopReply {
    pub(crate) const fn is_positive(&self) -> bool {
        matches!(self.code, 200..=299)
    }

    /// Whether another attempt may succeed (RFC 5321, section 4.2.1).
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(self.code, 400..=499)
    }

    /// The lines as one text, separated by line breaks.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// The line is not a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the next hop sent a line that is not an SMTP reply")]
pub(crate) struct MalformedHopReply;

/// Removes a complete reply from the front of `input`; `None` if more bytes are needed.
pub(crate) fn take(input: &mut BytesMut) -> Result<Option<HopReply>, MalformedHopReply> {
    let mut lines = Vec::new();
    let mut first_code = None;
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let Some(end) = memchr(b'\n', rest) else {
            return if rest.len() > LINE_BYTES_MAX {
                Err(MalformedHopReply)
            } else {
                Ok(None)
            };
        };
        let line = rest.get(..end).unwrap_or_default();
        at += end + 1;
        let (code, goes_on, text) = line_of(line.trim_ascii_end()).ok_or(MalformedHopReply)?;
        if *first_code.get_or_insert(code) != code || lines.len() >= LINES_MAX {
            return Err(MalformedHopReply);
        }
        lines.push(text);
        if !goes_on {
            let _ = input.split_to(at);
            return Ok(Some(HopReply { code, lines }));
        }
    }
}

fn line_of(line: &[u8]) -> Option<(u16, bool, String)> {
    let (digits, rest) = line.split_at_checked(3)?;
    let code: u16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    if !digits.iter().all(u8::is_ascii_digit) || !(200..600).contains(&code) {
        return None;
    }
    let goes_on = match rest.first() {
        Some(b'-') => true,
        Some(b' ') | None => false,
        Some(_) => return None,
    };
    let text = String::from_utf8_lossy(rest.get(1..).unwrap_or_default()).into_owned();
    Some((code, goes_on, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<HopReply>, MalformedHopReply> {
        take(&mut BytesMut::from(text))
    }

    #[test]
    fn replies_are_read_whole() {
        let reply = read("250-mx\r\n250-SIZE 10\r\n250 DSN\r\nrest").expect("a reply");
        let reply = reply.expect("whole");
        assert_eq!(
            (reply.code, reply.text()),
            (250, "mx\nSIZE 10\nDSN".to_owned())
        );
        assert_eq!(
            read("354\r\n").map(|reply| reply.map(|it| it.code)),
            Ok(Some(354))
        );
        for part in ["", "2", "250-mx\r\n", "250-mx\r\n250 x"] {
            assert_eq!(read(part), Ok(None), "{part:?}");
        }
        for garbled in [
            "hello\r\n",
            "99 x\r\n",
            "250_x\r\n",
            "250-a\r\n251 b\r\n",
            "+25 x\r\n",
        ] {
            assert_eq!(read(garbled), Err(MalformedHopReply), "{garbled:?}");
        }
        assert_eq!(
            read(&"2".repeat(LINE_BYTES_MAX + 1)),
            Err(MalformedHopReply)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut input = BytesMut::from(&bytes[..]);
            if let Ok(Some(reply)) = take(&mut input) {
                prop_assert!(input.len() < bytes.len() && !reply.lines.is_empty());
            }
        }
    }
}
