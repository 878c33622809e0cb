//! The message file: a plain message, or XMail's spool file with its private head.
//!
//! XMail's header ends with a line `<<MAIL-DATA>>`; above it are an info line, the envelope, and
//! (off-line) two more lines. Both layouts are read in the same way: the envelope consists of the
//! lines that begin with `MAIL FROM:` and `RCPT TO:`, and XMail's private lines are skipped.

mod rewriting;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::envelope::ReportedEnvelope;
use crate::failure::CallFailure;

const MARK: &[u8] = b"<<MAIL-DATA>>";
/// The longest header that is searched for the mark: more than 10,000 recipients.
const HEAD_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The content of the file before the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Nothing.
    Plain,
    /// XMail's header. Before DATA, at SMTP time, the mark is missing: then the whole file is the
    /// header, and the message is empty.
    XmailSmtp,
    /// XMail's header with its mark: a file without it is of another kind.
    XmailOffline,
}

/// An open message file.
pub(crate) struct MessageFile {
    path: PathBuf,
    /// Opened when its content is first read: many procedures need only the size.
    file: Option<File>,
    /// The offset at which the message begins.
    start: u64,
    /// The length of the message from there.
    pub(crate) size: u64,
    /// From XMail's header, which contains the client at SMTP time only; a plain file has none.
    pub(crate) envelope: ReportedEnvelope,
}

impl MessageFile {
    /// Opens a message, and reads the header of XMail's files.
    pub(crate) fn open(path: &Path, layout: Layout) -> Result<Self, CallFailure> {
        let failed = |error| CallFailure::File(path.to_owned(), error);
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            let error = io::Error::new(ErrorKind::InvalidInput, "no regular file");
            return Err(failed(error));
        }
        let length = metadata.len();
        let mut message = Self {
            path: path.to_owned(),
            file: None,
            start: 0,
            size: length,
            envelope: ReportedEnvelope::default(),
        };
        if layout != Layout::Plain {
            message.read_head(length, layout).map_err(failed)?;
        }
        Ok(message)
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(File::open(&self.path)?);
        }
        self.file.as_mut().ok_or(ErrorKind::NotFound.into())
    }

    fn read_head(&mut self, length: u64, layout: Layout) -> io::Result<()> {
        let mut head = Vec::new();
        let mut block = [0; 4096];
        let mut line_start = 0;
        loop {
            while let Some(end) = line_end(&head, line_start) {
                let line = trimmed(head.get(line_start..end).unwrap_or_default());
                if line_start == 0 {
                    self.info_line(line);
                }
                line_start = end + 1;
                if line == MARK {
                    self.start = line_start as u64;
                    self.size = length.saturating_sub(self.start);
                    return Ok(());
                }
                self.envelope_line(line);
            }
            let count = self.file()?.read(&mut block)?;
            if count == 0 && layout == Layout::XmailSmtp {
                self.start = length;
                self.size = 0;
                return Ok(());
            }
            head.extend_from_slice(block.get(..count).unwrap_or_default());
            if count == 0 || head.len() as u64 > HEAD_MAX_BYTES {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "no <<MAIL-DATA>> line: is this XMail's spool file?",
                ));
            }
        }
    }

    /// `ClientDomain;[ClientIP]:port;…` at SMTP time, `[ClientIP]:port;…` off-line.
    fn info_line(&mut self, line: &[u8]) {
        for part in line.split(|&byte| byte == b';').take(2) {
            let bracketed = part.strip_prefix(b"[").and_then(|rest| {
                let end = rest.iter().position(|&byte| byte == b']')?;
                std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
            });
            if bracketed.is_some() {
                self.envelope.address = bracketed;
                return;
            }
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
            if self.envelope.client.is_none() && !part.is_empty() && part.iter().all(is_name) {
                self.envelope.client = Some(part.to_vec());
            }
        }
    }

    fn envelope_line(&mut self, line: &[u8]) {
        if let Some(address) = address_after(line, b"MAIL FROM:") {
            self.envelope.sender.get_or_insert(address);
        } else if let Some(address) = address_after(line, b"RCPT TO:") {
            self.envelope.recipients.push(address);
        }
    }

    /// Passes the message on in blocks, exactly `size` bytes in total.
    pub(crate) fn copy_body(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), CallFailure>,
    ) -> Result<(), CallFailure> {
        let path = self.path.clone();
        let failed = |error| CallFailure::File(path.clone(), error);
        let mut left = self.size;
        let start = self.start;
        let file = self.file().map_err(failed)?;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut block = vec![0; 64 * 1024];
        while left > 0 {
            let wanted = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let part = block.get_mut(..wanted).unwrap_or_default();
            let count = file.read(part).map_err(failed)?;
            if count == 0 {
                // The size has been sent already, so the call cannot continue.
                return Err(failed(ErrorKind::UnexpectedEof.into()));
            }
            take(part.get(..count).unwrap_or_default())?;
            left -= count as u64;
        }
        Ok(())
    }
}

fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter()
        .position(|&byte| byte == b'\n')
        .map(|at| from + at)
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The address in brackets after a command, in any case, as in SMTP.
fn address_after(line: &[u8], command: &[u8]) -> Option<Vec<u8>> {
    let (start, rest) = line.split_at_checked(command.len())?;
    if !start.eq_ignore_ascii_case(command) {
        return None;
    }
    let open = rest.iter().position(|&byte| byte == b'<')?;
    let inner = rest.get(open + 1..)?;
    let close = inner.iter().position(|&byte| byte == b'>')?;
    let address = inner.get(..close)?;
    let clean = !address.iter().any(u8::is_ascii_control);
    clean.then(|| address.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    pub(super) const OFFLINE: &str = "[10.0.0.1]:4012;[10.0.0.2]:25;Sat, 21 Sep 2002 10:00:00 \
        +0200\r\n\
        example.org\r\nS1A2\r\nMAIL FROM:<anna@example.org>\r\nRCPT TO:<bert@example.org>\r\n\
        <<MAIL-DATA>>\r\nSubject: hi\r\n\r\nbody\r\n";
    const SMTP_TIME: &str = "client;[10.0.0.1]:4012;server;[10.0.0.2]:25;time;logo\r\n\
        MAIL FROM:<>\r\nRCPT TO:<b@example.org> {ra=bert@example.org}\r\n\
        rcpt to:<c@example.org>\r\n\
        <<MAIL-DATA>>\r\nSubject: hi\r\n\r\nbody\r\n";
    pub(super) const BODY: &[u8] = b"Subject: hi\r\n\r\nbody\r\n";

    pub(super) fn stored(content: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1032595200.1.1.host");
        fs::write(&path, content).expect("a file");
        (folder, path)
    }

    fn body(message: &mut MessageFile) -> Vec<u8> {
        let mut body = Vec::new();
        let copied = message.copy_body(|block| {
            body.extend_from_slice(block);
            Ok(())
        });
        copied.expect("a body");
        body
    }

    #[test]
    fn both_layouts_of_the_head_are_read() {
        for (content, sender, recipients) in [
            (OFFLINE, "anna@example.org", vec!["bert@example.org"]),
            (SMTP_TIME, "", vec!["b@example.org", "c@example.org"]),
        ] {
            let (_folder, path) = stored(content);
            let mut message = MessageFile::open(&path, Layout::XmailSmtp).expect("a spool file");
            assert_eq!(message.size, BODY.len() as u64);
            assert_eq!(message.envelope.sender.as_deref(), Some(sender.as_bytes()));
            assert_eq!(message.envelope.address, Some(IpAddr::from([10, 0, 0, 1])));
            let client = (content == SMTP_TIME).then_some(b"client".as_slice());
            assert_eq!(message.envelope.client.as_deref(), client);
            assert_eq!(
                message.envelope.recipients,
                recipients.iter().map(|r| r.as_bytes()).collect::<Vec<_>>()
            );
            assert_eq!(body(&mut message), BODY);
        }
    }

    #[test]
    fn a_plain_file_is_all_message_and_a_head_without_mark_has_none() {
        let (_folder, path) = stored(OFFLINE);
        let mut plain = MessageFile::open(&path, Layout::Plain).expect("a file");
        assert_eq!(body(&mut plain), OFFLINE.as_bytes());
        let (_folder, path) = stored("info\r\nMAIL FROM:<a@b.example>\r\n");
        let mut early = MessageFile::open(&path, Layout::XmailSmtp).expect("a spool file");
        assert_eq!((early.size, body(&mut early)), (0, Vec::new()));
        assert_eq!(
            early.envelope.sender.as_deref(),
            Some(b"a@b.example".as_slice())
        );
        assert!(MessageFile::open(&path, Layout::XmailOffline).is_err());
    }

    #[test]
    fn a_file_that_shrinks_is_a_failure_not_a_short_body() {
        let (_folder, path) = stored("0123456789");
        let mut message = MessageFile::open(&path, Layout::Plain).expect("a file");
        fs::write(&path, "0123").expect("shorter");
        assert!(message.copy_body(|_| Ok(())).is_err());
    }
}
