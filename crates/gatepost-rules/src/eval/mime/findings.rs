//! One pass over the header fields and lines of all MIME parts, whose counts the functions of
//! MIMEEval compare.

use gatepost_mail::{ContentType, MimePart, lines};

use super::super::{locale, pattern};
use crate::eval::ScannedMail;

/// Counts over all parts.
#[derive(Clone, Debug, Default)]
pub(in crate::eval) struct MimeFindings {
    pub(super) base64_parts: u32,
    pub(super) base64_encoded_text: bool,
    pub(super) html_parts: u32,
    pub(super) text_parts: u32,
    pub(super) attachment: bool,
    pub(super) faraway_charset: bool,
    pub(super) bad_iso_charset: bool,
    pub(super) boundary_missing: bool,
    pub(super) alternative: bool,
    pub(super) multipart_ratio: f64,
    pub(super) quoted_count: i64,
    pub(super) quoted_long_line: bool,
    pub(super) quoted_ratio: f64,
    pub(super) ascii_text_illegal: bool,
    pub(super) unicode_ratio: f64,
    pub(super) charsets: Vec<String>,
}

impl MimeFindings {
    /// A count by SpamAssassin's name.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        let flag = |flag: bool| f64::from(u8::from(flag));
        Some(match name {
            "mime_base64_count" => f64::from(self.base64_parts),
            "mime_base64_encoded_text" => flag(self.base64_encoded_text),
            "mime_body_html_count" => f64::from(self.html_parts),
            "mime_body_text_count" => f64::from(self.text_parts),
            "mime_attachment" => flag(self.attachment),
            "mime_faraway_charset" => flag(self.faraway_charset),
            "mime_bad_iso_charset" => flag(self.bad_iso_charset),
            "mime_missing_boundary" => flag(self.boundary_missing),
            "mime_multipart_alternative" => flag(self.alternative),
            "mime_multipart_ratio" => self.multipart_ratio,
            "mime_qp_count" => self.quoted_count as f64,
            "mime_qp_long_line" => flag(self.quoted_long_line),
            "mime_qp_ratio" => self.quoted_ratio,
            "mime_ascii_text_illegal" => flag(self.ascii_text_illegal),
            "mime_text_unicode_ratio" => self.unicode_ratio,
            _ => return None,
        })
    }
}

/// The content of the head of a part, in lower case.
pub(super) struct PartHead {
    pub(super) media_type: String,
    pub(super) encoding: String,
    pub(super) disposition: String,
    pub(super) charset: Option<String>,
}

impl PartHead {
    pub(super) fn of(part: &MimePart) -> Self {
        let content_type = ContentType::parse(part.field(b"content-type"));
        let lower = |name: &[u8]| {
            String::from_utf8_lossy(part.field(name).unwrap_or_default()).to_lowercase()
        };
        let charset = content_type
            .charset
            .map(|charset| String::from_utf8_lossy(&charset).to_lowercase());
        Self {
            media_type: content_type.media_type,
            encoding: lower(b"content-transfer-encoding"),
            disposition: lower(b"content-disposition"),
            charset,
        }
    }
}

pattern!(
    ASCII_CHARSET,
    concat!(
        r"us-ascii|ansi_x3\.4-1968|iso-ir-6|ansi_x3\.4-1986|iso_646\.irv:1991|ascii|iso646-us|us",
        r"|ibm367|cp367|csascii",
    )
);
pattern!(ODD_ISO_CHARSET, r"iso-\S+-\S+\b", "i");
pattern!(KNOWN_ISO_CHARSET, r"iso-(?:8859-\d{1,2}|2022-(?:jp|kr))\b");

/// Sums over the lines of the parts.
#[derive(Default)]
struct LineSums {
    quoted_bytes: usize,
    quoted: i64,
    normal: usize,
    unicode: usize,
    /// The type and size of each inline part.
    shown: Vec<(String, usize)>,
}

pub(super) fn find(mail: &ScannedMail<'_>) -> MimeFindings {
    let mut found = MimeFindings {
        multipart_ratio: 1.0,
        ..MimeFindings::default()
    };
    let mut sums = LineSums::default();
    for part in mail.parts().all() {
        let head = PartHead::of(part);
        found.alternative |= head.media_type == "multipart/alternative";
        found.note_head(&head, &mail.settings().locales);
        if part.is_leaf {
            found.note_lines(part, &head, &mut sums);
        }
    }
    if sums.quoted_bytes > 0 {
        found.quoted_ratio = sums.quoted as f64 / sums.quoted_bytes as f64;
        found.quoted_count = sums.quoted;
    }
    if sums.normal > 0 {
        found.unicode_ratio = sums.unicode as f64 / sums.normal as f64;
    }
    if found.alternative {
        let last = |kind: &str| {
            sums.shown
                .iter()
                .rfind(|(shown, _)| shown == kind)
                .map(|&(_, size)| size)
        };
        if let (Some(text), Some(html @ 1..)) = (last("text/plain"), last("text/html")) {
            found.multipart_ratio = text as f64 / html as f64;
        }
    }
    found.boundary_missing = mail.parts().boundaries.iter().any(|&(_, open)| open != 0);
    found
}

impl MimeFindings {
    fn note_head(&mut self, head: &PartHead, locales: &[String]) {
        let charset = head.charset.as_deref().unwrap_or_default();
        if head.media_type == "text/html" {
            self.html_parts += 1;
        } else if head.media_type.starts_with("text") {
            self.text_parts += 1;
        }
        let base64 = head.encoding.contains("base64");
        if base64 {
            self.base64_parts += 1;
        } else if head.encoding.contains("quoted-printable") {
            self.quoted_count += 1;
        }
        self.attachment |= head.disposition.contains("attachment");
        self.base64_encoded_text |= head.media_type.starts_with("text")
            && base64
            && (charset.is_empty() || charset == "0" || ASCII_CHARSET.is_match(charset.as_bytes()))
            && !head.disposition.starts_with("attachment")
            && !head.disposition.starts_with("inline");
        self.bad_iso_charset |= ODD_ISO_CHARSET.is_match(charset.as_bytes())
            && !KNOWN_ISO_CHARSET.is_match(charset.as_bytes());
        if charset.contains(|letter: char| letter.is_ascii_alphabetic()) {
            self.charsets.push(charset.to_owned());
            self.faraway_charset |=
                !locale::is_any(locales) && !locale::is_expected(charset, locales);
        }
    }

    fn note_lines(&mut self, part: &MimePart, head: &PartHead, sums: &mut LineSums) {
        let raw = part.raw();
        let shown = !head.disposition.contains("attachment");
        let counted = self.alternative
            && shown
            && matches!(head.media_type.as_str(), "text/plain" | "text/html");
        if shown {
            sums.shown
                .push((head.media_type.clone(), if counted { raw.len() } else { 0 }));
        }
        if head.encoding == "quoted-printable" {
            lines(raw)
                .filter(|line| !line.starts_with(b"SPAM: "))
                .for_each(|line| self.note_quoted(line, sums));
        }
        if head.media_type != "text/plain" {
            return;
        }
        if head
            .charset
            .as_deref()
            .is_none_or(|charset| charset == "us-ascii")
        {
            self.ascii_text_illegal |= !raw.is_ascii() || memchr::memchr2(0, b'\r', raw).is_some();
        }
        if matches!(head.encoding.as_str(), "" | "7bit" | "8bit") {
            let entities = memchr::memmem::find_iter(raw, b"&#x")
                .filter(|&at| is_unicode_entity(raw, at))
                .count();
            sums.unicode += entities;
            sums.normal += raw.len() - entities * UNICODE_ENTITY_LENGTH;
        }
    }

    fn note_quoted(&mut self, line: &[u8], sums: &mut LineSums) {
        // RFC 5322, section 2.1.1 recommends lines of no more than 78 characters.
        self.quoted_long_line |= line.len() > 79;
        sums.quoted_bytes += line.len();
        let needless = |at: usize| {
            matches!(
                line.get(at + 1..at + 3),
                Some(
                    b"09"
                    | [b'3', b'0'..=b'9' | b'A' | b'B' | b'C' | b'E' | b'F']
                    | [b'2' | b'4' | b'5' | b'6', b'0'..=b'9' | b'A'..=b'F']
                    | [b'7', b'0'..=b'9' | b'A'..=b'E'],
                )
            )
        };
        let count = memchr::memchr_iter(b'=', line)
            .filter(|&at| needless(at))
            .count() as i64;
        if count > 0 {
            let mut rest = line.trim_ascii_end();
            let mut trailing = 0;
            while let Some(before) = rest
                .strip_suffix(b"=20")
                .or_else(|| rest.strip_suffix(b"=09"))
            {
                (rest, trailing) = (before, trailing + 1);
            }
            sums.quoted += count - trailing;
        }
    }
}

/// The length of `&#xABCD;`.
const UNICODE_ENTITY_LENGTH: usize = 8;

fn is_unicode_entity(text: &[u8], at: usize) -> bool {
    text.get(at + 3..at + UNICODE_ENTITY_LENGTH)
        .is_some_and(|rest| {
            rest.ends_with(b";")
                && rest
                    .iter()
                    .take(4)
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'))
        })
}
