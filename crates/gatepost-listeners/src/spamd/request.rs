//! The head of a request, without I/O.

use bytes::{Buf, BytesMut};
use gatepost_learning::bayes::Class;

/// The command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the protocol's
pub enum SpamdCommand {
    Check,
    Symbols,
    Report,
    ReportIfSpam,
    Process,
    Headers,
    Tell,
    Ping,
    Skip,
}

impl SpamdCommand {
    const ALL: [(&'static str, Self); 9] = [
        ("CHECK", Self::Check),
        ("SYMBOLS", Self::Symbols),
        ("REPORT", Self::Report),
        ("REPORT_IFSPAM", Self::ReportIfSpam),
        ("PROCESS", Self::Process),
        ("HEADERS", Self::Headers),
        ("TELL", Self::Tell),
        ("PING", Self::Ping),
        ("SKIP", Self::Skip),
    ];

    fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, command)| command)
    }
}

/// The protocol's version: major and minor.
pub type SpamdVersion = (u8, u8);

/// Everything before the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpamdHead {
    /// The command of a request.
    pub command: SpamdCommand,
    /// The client's version of the protocol.
    pub version: SpamdVersion,
    /// Bytes of the message on the wire; without it, the message ends with the stream.
    pub content_length: Option<u64>,
    /// The user for which the message is judged.
    pub user: Option<String>,
    /// Whether the message is compressed by zlib.
    pub compressed: bool,
    /// The class of the message in TELL.
    pub class: Option<Class>,
    /// The places in which TELL requests learning.
    pub set: TellTargets,
    /// The places in which TELL requests forgetting.
    pub remove: TellTargets,
}

/// The places that TELL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TellTargets {
    /// The server's own learned data.
    pub local: bool,
    /// Public collections to which messages are reported.
    pub remote: bool,
}

impl TellTargets {
    /// Whether both name the same place.
    pub const fn meets(self, other: Self) -> bool {
        self.local && other.local || self.remote && other.remote
    }
}

/// The reason why a header cannot be read. The text is a part of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // their messages say enough
pub enum SpamdHeadError {
    #[error("the head is longer than {0} bytes")]
    TooLong(usize),
    #[error("the request '{0}' is not COMMAND SPAMC/VERSION")]
    Request(String),
    #[error("there is no command '{0}'")]
    Command(String),
    #[error("the line '{0}' is not a NAME: VALUE")]
    Line(String),
    #[error("Content-length is not a number of bytes: '{0}'")]
    ContentLength(String),
    #[error("the compression '{0}' is not supported; use zlib")]
    Compression(String),
    #[error("Compress needs a Content-length")]
    CompressedWithoutLength,
    #[error("the class '{0}' is neither spam nor ham")]
    Class(String),
    #[error("'{0}' is neither local nor remote")]
    Target(String),
}

impl SpamdHead {
    /// Removes a head from the front of `input`; returns `None` if its end has not arrived and
    /// `ended` is not set.
    pub fn take(
        input: &mut BytesMut,
        bytes_max: usize,
        ended: bool,
    ) -> Result<Option<Self>, SpamdHeadError> {
        let Some(end) = end_of_head(input, ended) else {
            return if input.len() > bytes_max {
                Err(SpamdHeadError::TooLong(bytes_max))
            } else {
                Ok(None)
            };
        };
        if end > bytes_max {
            return Err(SpamdHeadError::TooLong(bytes_max));
        }
        // `User` may hold any byte above the control characters.
        let head = String::from_utf8_lossy(input.get(..end).unwrap_or_default()).into_owned();
        let head = parse(&head)?;
        input.advance(end);
        Ok(Some(head))
    }

    /// Whether the client's version is at least this one.
    pub fn since(&self, version: SpamdVersion) -> bool {
        self.version >= version
    }
}

/// The first byte after the head. PING and SKIP have only their line before version 1.5, and
/// scans before 1.1 have no fields either (the message follows immediately).
fn end_of_head(input: &[u8], ended: bool) -> Option<usize> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', input) {
        let line = input.get(start..end).unwrap_or_default();
        let is_first = start == 0;
        let is_whole = if is_first {
            stands_alone(line)
        } else {
            line.is_empty() || line == b"\r"
        };
        if is_whole {
            return Some(end + 1);
        }
        start = end + 1;
    }
    ended.then_some(input.len())
}

fn stands_alone(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    match request(line.trim()) {
        Ok((SpamdCommand::Ping | SpamdCommand::Skip, version)) => version < (1, 5),
        Ok((SpamdCommand::Tell, _)) => false,
        Ok((_, version)) => version <= (1, 0),
        // A malformed line is refused without waiting for more.
        Err(_) => true,
    }
}

fn request(line: &str) -> Result<(SpamdCommand, SpamdVersion), SpamdHeadError> {
    let malformed = || SpamdHeadError::Request(shortened(line));
    // spamd searches the line for the command and ignores what precedes it.
    let mut words = line.split_whitespace().rev();
    let (Some(protocol), Some(command)) = (words.next(), words.next()) else {
        return Err(malformed());
    };
    let version = protocol.strip_prefix("SPAMC/").ok_or_else(malformed)?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let number = |text: &str| text.parse::<u8>().map_err(|_| malformed());
    let version = (number(major)?, number(minor)?);
    let command =
        SpamdCommand::named(command).ok_or_else(|| SpamdHeadError::Command(shortened(command)))?;
    Ok((command, version))
}

fn parse(text: &str) -> Result<SpamdHead, SpamdHeadError> {
    let mut lines = text.lines();
    let (command, version) = request(lines.next().unwrap_or_default().trim())?;
    let mut head = SpamdHead {
        command,
        version,
        content_length: None,
        user: None,
        compressed: false,
        class: None,
        set: TellTargets::default(),
        remove: TellTargets::default(),
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| SpamdHeadError::Line(shortened(line)))?;
        field(&mut head, name.trim(), value.trim())?;
    }
    if head.compressed && head.content_length.is_none() {
        return Err(SpamdHeadError::CompressedWithoutLength);
    }
    Ok(head)
}

/// Unknown fields are skipped, as the protocol demands.
fn field(head: &mut SpamdHead, name: &str, value: &str) -> Result<(), SpamdHeadError> {
    match name.to_ascii_lowercase().as_str() {
        "content-length" => {
            let length = value.parse();
            let length = length.map_err(|_| SpamdHeadError::ContentLength(shortened(value)))?;
            head.content_length = Some(length);
        }
        "user" => head.user = Some(value.to_owned()),
        "compress" if value.eq_ignore_ascii_case("zlib") => head.compressed = true,
        "compress" => return Err(SpamdHeadError::Compression(shortened(value))),
        "message-class" => {
            head.class = Some(match value.to_ascii_lowercase().as_str() {
                "spam" => Class::Spam,
                "ham" => Class::Ham,
                _ => return Err(SpamdHeadError::Class(shortened(value))),
            });
        }
        "set" => head.set = targets(value)?,
        "remove" => head.remove = targets(value)?,
        _ => {}
    }
    Ok(())
}

fn targets(value: &str) -> Result<TellTargets, SpamdHeadError> {
    let mut targets = TellTargets::default();
    for word in value.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "local" => targets.local = true,
            "remote" => targets.remote = true,
            _ => return Err(SpamdHeadError::Target(shortened(word))),
        }
    }
    Ok(targets)
}

fn shortened(text: &str) -> String {
    let printable = text.chars().filter(|character| !character.is_control());
    printable.take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(text: &[u8], ended: bool) -> Result<Option<(SpamdHead, usize)>, SpamdHeadError> {
        let mut input = BytesMut::from(text);
        let head = SpamdHead::take(&mut input, 300, ended)?;
        Ok(head.map(|head| (head, input.len())))
    }

    #[test]
    fn a_head_is_whole_at_its_empty_line() {
        let text =
            b"SYMBOLS SPAMC/1.5\r\nContent-length: 5\r\nUSER: anna\r\nX-Other: 1\r\n\r\nhello";
        let (head, left) = take(text, false).expect("a head").expect("whole");
        let expected = SpamdHead {
            command: SpamdCommand::Symbols,
            version: (1, 5),
            content_length: Some(5),
            user: Some("anna".into()),
            compressed: false,
            class: None,
            set: TellTargets::default(),
            remove: TellTargets::default(),
        };
        assert_eq!((head, left), (expected, 5));
        for end in 0..text.len() - 5 {
            assert_eq!(take(&text[..end], false), Ok(None), "{end} bytes");
        }
    }

    #[test]
    fn old_versions_have_a_line_only() {
        for (text, left) in [
            (&b"PING SPAMC/1.2\r\n"[..], 0),
            (b"SKIP SPAMC/1.4\r\nX", 1),
            (b"CHECK SPAMC/1.0\r\nSubject: x\r\n", 12),
        ] {
            let (_, rest) = take(text, false).expect("a head").expect("whole");
            assert_eq!(rest, left, "{}", text.escape_ascii());
        }
        assert_eq!(take(b"PING SPAMC/1.5\r\n", false), Ok(None));
        assert!(matches!(take(b"PING SPAMC/1.5\r\n", true), Ok(Some(_))));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, error) in [
            (
                "MAKE-TEA SPAMC/1.5\r\n\r\n",
                SpamdHeadError::Command("MAKE-TEA".into()),
            ),
            (
                "GET / HTTP/1.1\r\n",
                SpamdHeadError::Request("GET / HTTP/1.1".into()),
            ),
            (
                "CHECK SPAMC/one\r\n",
                SpamdHeadError::Request("CHECK SPAMC/one".into()),
            ),
            (
                "CHECK SPAMC/1.5\r\nhello\r\n\r\n",
                SpamdHeadError::Line("hello".into()),
            ),
            (
                "CHECK SPAMC/1.5\r\nContent-length: many\r\n\r\n",
                SpamdHeadError::ContentLength("many".into()),
            ),
            (
                "CHECK SPAMC/1.5\r\nCompress: magic\r\n\r\n",
                SpamdHeadError::Compression("magic".into()),
            ),
            (
                "TELL SPAMC/1.5\r\nMessage-class: eggs\r\n\r\n",
                SpamdHeadError::Class("eggs".into()),
            ),
            (
                "TELL SPAMC/1.5\r\nSet: local, moon\r\n\r\n",
                SpamdHeadError::Target("moon".into()),
            ),
            (
                "CHECK SPAMC/1.5\r\nCompress: zlib\r\n\r\n",
                SpamdHeadError::CompressedWithoutLength,
            ),
        ] {
            assert_eq!(take(text.as_bytes(), false), Err(error), "{text}");
        }
        let long = format!("CHECK SPAMC/1.5\r\nUser: {}", "a".repeat(300));
        assert_eq!(
            take(long.as_bytes(), false),
            Err(SpamdHeadError::TooLong(300))
        );
    }

    proptest! {
        #[test]
        fn no_input_breaks_the_parser(
            input in proptest::collection::vec(any::<u8>(), 0..200),
            ended: bool,
        ) {
            let _ = take(&input, ended);
        }
    }
}
