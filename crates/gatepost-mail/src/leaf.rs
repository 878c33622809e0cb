//! The leaves of the MIME tree, as texts and files, for callers that do not use rules.

use bytes::Bytes;

use super::{Mail, Visibility, part_text};

/// A text or a file of a mail, not a container of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The declared media type, in lower case.
    pub media_type: String,
    /// The declared file name; it must not be trusted as a path.
    pub name: Option<String>,
    /// `attachment` or `inline`, in lower case, if declared.
    pub disposition: Option<String>,
    /// The content after transfer decoding.
    pub content: Bytes,
    /// The text that a reader sees; `None` if the content is not text.
    pub text: Option<String>,
}

impl Mail<'_> {
    /// The texts and files, in reading order.
    pub fn leaves(&self) -> Vec<Leaf> {
        let leaves = self.parts().leaves().zip(self.rendered());
        leaves
            .map(|(part, rendered)| {
                let disposition = part.field(b"content-disposition").map(|value| {
                    let end = value.iter().position(|byte| *byte == b';');
                    let kind = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
                    String::from_utf8_lossy(kind.trim_ascii()).to_ascii_lowercase()
                });
                let text = part_text(
                    part,
                    rendered.as_ref(),
                    Visibility::Visible,
                    self.view_settings(),
                );
                Leaf {
                    media_type: part.media_type.clone(),
                    name: part
                        .name
                        .as_deref()
                        .map(|name| String::from_utf8_lossy(name.trim_ascii_end()).into_owned()),
                    disposition,
                    content: part.decoded().clone(),
                    text: text.map(super::body::PartText::into_text),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_files_are_listed_with_their_types() {
        let mail = Mail::parse(
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n\
              --b\r\nContent-Type: application/x-msdownload\r\n\
              Content-Disposition: Attachment; filename=\"run.exe\"\r\n\
              Content-Transfer-Encoding: base64\r\n\r\nTVqQ\r\n--b--\r\n",
        );
        let leaves = mail.leaves();
        assert_eq!(leaves.len(), 2);
        assert_eq!(leaves[0].media_type, "text/plain");
        assert_eq!(leaves[0].text.as_deref().map(str::trim), Some("hello"));
        assert_eq!(leaves[1].name.as_deref(), Some("run.exe"));
        assert_eq!(leaves[1].disposition.as_deref(), Some("attachment"));
        assert_eq!(&leaves[1].content[..], b"MZ\x90");
        assert_eq!(leaves[1].text, None);
    }
}
