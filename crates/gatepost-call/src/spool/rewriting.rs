//! The output for XMail: the reason for a refusal in a file beside the message, and the rewritten
//! file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::MessageFile;
use crate::failure::CallFailure;

impl MessageFile {
    /// Writes XMail's rejection text, one line, to a file beside the message.
    pub(crate) fn write_rejection(&self, reason: &str) -> Result<(), CallFailure> {
        let mut path = self.path.clone().into_os_string();
        path.push(".rej");
        let path = PathBuf::from(path);
        let line: String = reason.chars().filter(|c| !c.is_control()).collect();
        fs::write(&path, format!("{line}\r\n")).map_err(|error| CallFailure::Write(path, error))
    }

    /// Replaces the message with `changed`, and adds header fields above it; XMail's header stays
    /// unchanged, and every line ends with CR LF. The new file replaces the old one atomically.
    pub(crate) fn rewrite(
        &mut self,
        changed: Option<&[u8]>,
        fields: &[String],
    ) -> Result<(), CallFailure> {
        let mut path = self.path.clone().into_os_string();
        path.push(".new");
        let path = PathBuf::from(path);
        self.write_new(&path, changed, fields)
            .and_then(|()| fs::rename(&path, &self.path))
            .map_err(|error| {
                // The incomplete file is of no use.
                let _ = fs::remove_file(&path);
                CallFailure::Write(path, error)
            })
    }

    fn write_new(
        &mut self,
        path: &Path,
        changed: Option<&[u8]>,
        fields: &[String],
    ) -> io::Result<()> {
        let mut content = Vec::new();
        let original = self.file()?;
        original.seek(SeekFrom::Start(0))?;
        original.read_to_end(&mut content)?;
        let permissions = original.metadata()?.permissions();
        let start = usize::try_from(self.start).unwrap_or(usize::MAX);
        let head = content.get(..start).unwrap_or_default();
        let body = changed.unwrap_or(content.get(start..).unwrap_or_default());
        let mut output = Vec::with_capacity(content.len() + 512);
        output.extend_from_slice(head);
        for field in fields {
            output.extend(field.bytes().filter(|byte| !byte.is_ascii_control()));
            output.extend_from_slice(b"\r\n");
        }
        for line in body.split_inclusive(|&byte| byte == b'\n') {
            match line.strip_suffix(b"\n") {
                Some(text) => {
                    output.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                    output.extend_from_slice(b"\r\n");
                }
                None => output.extend_from_slice(line),
            }
        }
        let mut file = File::create(path)?;
        file.set_permissions(permissions)?;
        file.write_all(&output)?;
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::super::tests::{BODY, OFFLINE, stored};
    use super::*;

    #[test]
    fn fields_go_on_top_and_the_head_stays() {
        let (_folder, path) = stored(&OFFLINE.replace("hi\r\n\r\nbody\r\n", "hi\n\nbody"));
        let mut message = MessageFile::open(&path, Layout::XmailSmtp).expect("a spool file");
        message
            .rewrite(None, &["X-Spam-Flag: YES".into()])
            .expect("rewritten");
        let head = &OFFLINE[..OFFLINE.len() - BODY.len()];
        let expected = format!("{head}X-Spam-Flag: YES\r\nSubject: hi\r\n\r\nbody");
        assert_eq!(fs::read_to_string(&path).expect("the file"), expected);
        assert!(!path.with_file_name("1032595200.1.1.host.new").exists());
    }

    #[test]
    fn the_rejection_is_one_line() {
        let (_folder, path) = stored(OFFLINE);
        let message = MessageFile::open(&path, Layout::XmailSmtp).expect("a spool file");
        message.write_rejection("550 too\r\nbig").expect("written");
        let text = fs::read_to_string(path.with_file_name("1032595200.1.1.host.rej"));
        assert_eq!(text.expect("the file"), "550 toobig\r\n");
    }
}
