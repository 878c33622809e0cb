//! `/signature`: appends a text to a mail: below its plain text, and below its HTML. Attachments,
//! encrypted and signed mail, and mail that contains the text already are unchanged.
//!
//! Only the bytes of the parts that get the text change; their transfer encoding is kept.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_message::{Edit, Format, Verdict};
use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// The depth of parts; deeper parts are not text that a person wrote.
const DEPTH_MAX: usize = 5;
/// The beginnings of the names of character sets in which ASCII letters are not single bytes.
const WIDE_CHARSETS: [&str; 4] = ["utf-16", "utf-32", "ucs-", "iso-10646"];
/// The length of encoded lines, in characters (RFC 2045, section 6.7, section 6.8).
const ENCODED_LINE: usize = 76;

/// `[procedure."/signature"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Default)]
#[serde(default, deny_unknown_fields)]
pub struct SignatureSettings {
    /// The text.
    pub text: String,
    /// A file with the text, used in place of `text`.
    pub file: Option<PathBuf>,
    /// The same as HTML; if empty, it is derived from the text.
    pub html: String,
}

pub(crate) struct SignatureCheck {
    text: String,
    html: String,
}

impl SignatureCheck {
    pub(crate) fn new(settings: &SignatureSettings) -> Result<Self, String> {
        let text = match &settings.file {
            None => settings.text.clone(),
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| format!("{}: {error}", file.display()))?,
        };
        let text = text.trim_end().replace("\r\n", "\n");
        let html = if settings.html.is_empty() {
            let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
            escaped.replace('\n', "<br>\n")
        } else {
            settings.html.clone()
        };
        Ok(Self { text, html })
    }

    /// The entity with the text appended; `None` if it gets none.
    fn sign(&self, entity: &[u8], depth: usize) -> Option<Vec<u8>> {
        let (head, body) = split(entity);
        let kind = field(head, "content-type").unwrap_or_else(|| "text/plain".to_owned());
        let lower = kind.to_ascii_lowercase();
        let media = lower.split(';').next().unwrap_or_default().trim();
        let disposition = field(head, "content-disposition").unwrap_or_default();
        if disposition
            .trim_start()
            .to_ascii_lowercase()
            .starts_with("attachment")
        {
            return None;
        }
        match media {
            "text/plain" => Self::sign_text(head, body, &lower, &self.plain()),
            "text/html" => Self::sign_text(head, body, &lower, &self.html),
            "multipart/signed" | "multipart/encrypted" | "multipart/report" => None,
            _ if media.starts_with("multipart/") && depth < DEPTH_MAX => {
                let boundary = parameter(&kind, "boundary")?;
                let all = media == "multipart/alternative";
                self.sign_parts(entity, head.len(), &boundary, all, depth)
            }
            _ => None,
        }
    }

    /// The mark "-- " by which mail programs recognise a signature (RFC 3676, section 4.3).
    fn plain(&self) -> String {
        format!("-- \r\n{}", self.text.replace('\n', "\r\n"))
    }

    fn sign_parts(
        &self,
        entity: &[u8],
        body_at: usize,
        boundary: &str,
        all: bool,
        depth: usize,
    ) -> Option<Vec<u8>> {
        let mut signed = entity[..body_at].to_vec();
        let mut copied = body_at;
        let mut changed = false;
        for (start, end) in parts(entity, body_at, boundary) {
            if changed && !all {
                break;
            }
            if let Some(part) = self.sign(&entity[start..end], depth + 1) {
                signed.extend_from_slice(&entity[copied..start]);
                signed.extend_from_slice(&part);
                copied = end;
                changed = true;
            }
        }
        signed.extend_from_slice(&entity[copied..]);
        changed.then_some(signed)
    }

    fn sign_text(head: &[u8], body: &[u8], kind: &str, text: &str) -> Option<Vec<u8>> {
        let encoding = field(head, "content-transfer-encoding").unwrap_or_default();
        let encoding = encoding.trim().to_ascii_lowercase();
        let charset = parameter(kind, "charset").unwrap_or_default();
        let is_utf8 = charset == "utf-8" || charset == "utf8";
        // Letters outside the part's character set would be displayed as others.
        let takes_eight_bits = matches!(
            encoding.as_str(),
            "8bit" | "binary" | "base64" | "quoted-printable"
        );
        let is_wide = WIDE_CHARSETS.iter().any(|wide| charset.starts_with(wide));
        let is_writable = text.is_ascii() || (is_utf8 && takes_eight_bits);
        if !is_writable || is_wide {
            return None;
        }
        let mut signed = head.to_vec();
        match encoding.as_str() {
            "" | "7bit" | "8bit" | "binary" => {
                if memmem::find(body, text.as_bytes()).is_some() {
                    return None;
                }
                signed.extend_from_slice(&below(body, text));
            }
            "base64" => {
                let packed: Vec<u8> = body
                    .iter()
                    .copied()
                    .filter(|byte| !byte.is_ascii_whitespace())
                    .collect();
                let decoded = BASE64.decode(packed).ok()?;
                if memmem::find(&decoded, text.as_bytes()).is_some() {
                    return None;
                }
                let encoded = BASE64.encode(below(&decoded, text));
                for line in encoded.as_bytes().chunks(ENCODED_LINE) {
                    signed.extend_from_slice(line);
                    signed.extend_from_slice(b"\r\n");
                }
            }
            "quoted-printable" => {
                let encoded = quoted_printable(text);
                if memmem::find(body, encoded.trim_end().as_bytes()).is_some() {
                    return None;
                }
                signed.extend_from_slice(&below(body, &encoded));
            }
            _ => return None,
        }
        Some(signed)
    }
}

impl Procedure for SignatureCheck {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        let mut verdict = Verdict::accept();
        if call.message.format == Format::Mail
            && !self.text.is_empty()
            && let Some(signed) = self.sign(&call.message.body, 0)
        {
            let (_, body) = split(&signed);
            let body = bytes::Bytes::copy_from_slice(body);
            verdict.edits.push(Edit::ReplaceBody(body));
        }
        Ok(verdict.into())
    }
}

/// Head with its empty line, and body.
fn split(entity: &[u8]) -> (&[u8], &[u8]) {
    if entity.starts_with(b"\r\n") || entity.starts_with(b"\n") {
        let end = if entity.starts_with(b"\r\n") { 2 } else { 1 };
        return entity.split_at(end);
    }
    let crlf = memmem::find(entity, b"\r\n\r\n").map(|at| at + 4);
    let lf = memmem::find(entity, b"\n\n").map(|at| at + 2);
    let end = match (crlf, lf) {
        (Some(one), Some(other)) => one.min(other),
        (one, other) => one.or(other).unwrap_or(entity.len()),
    };
    entity.split_at(end)
}

/// The value of the first field of this name, unfolded.
fn field(head: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((found, value)) = line.split_once(':') else {
            continue;
        };
        if !found.trim_end().eq_ignore_ascii_case(name) {
            continue;
        }
        let mut value = value.to_owned();
        while let Some(next) = lines.next_if(|next| next.starts_with([' ', '\t'])) {
            value += next;
        }
        return Some(value.trim().to_owned());
    }
    None
}

fn parameter(value: &str, name: &str) -> Option<String> {
    let pairs = value.split(';').skip(1);
    let named = pairs.filter_map(|pair| pair.split_once('='));
    let mut found = named.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    let value = found.next()?.1.trim();
    Some(value.trim_matches('"').to_owned())
}

/// The beginning and end of each part between the boundaries. The line end before a boundary
/// belongs to the boundary (RFC 2046, section 5.1.1).
fn parts(entity: &[u8], from: usize, boundary: &str) -> Vec<(usize, usize)> {
    let mark = format!("--{boundary}");
    let mut ranges = Vec::new();
    let mut start = None;
    let mut at = from;
    while let Some(found) = memmem::find(&entity[at..], mark.as_bytes()).map(|found| at + found) {
        let line_end =
            memchr::memchr(b'\n', &entity[found..]).map_or(entity.len(), |end| found + end + 1);
        at = line_end;
        let rest = entity[found + mark.len()..line_end].trim_ascii();
        let begins_line = found == from || entity[..found].ends_with(b"\n");
        if !begins_line || !(rest.is_empty() || rest == b"--") {
            continue;
        }
        if let Some(start) = start {
            let before = &entity[..found];
            let end = before
                .strip_suffix(b"\r\n")
                .or_else(|| before.strip_suffix(b"\n"));
            let end = end.map_or(found, <[u8]>::len);
            ranges.push((start, end.max(start)));
        }
        start = (rest.is_empty()).then_some(line_end);
        if start.is_none() {
            break;
        }
    }
    ranges
}

/// The body, a line end, the text and another line end. A closing `</body>` remains last.
fn below(body: &[u8], text: &str) -> Vec<u8> {
    let lower = body.to_ascii_lowercase();
    let cut = memmem::rfind(&lower, b"</body>").filter(|_| !text.starts_with("-- "));
    let (before, after) = body.split_at(cut.unwrap_or(body.len()));
    let mut whole = before.to_vec();
    if !whole.ends_with(b"\n") {
        whole.extend_from_slice(b"\r\n");
    }
    whole.extend_from_slice(text.as_bytes());
    whole.extend_from_slice(b"\r\n");
    whole.extend_from_slice(after);
    whole
}

/// RFC 2045, section 6.7.
fn quoted_printable(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.split("\r\n").flat_map(|line| line.split('\n')) {
        let mut encoded = String::new();
        let mut column = 0;
        let last = line.len().saturating_sub(1);
        for (place, byte) in line.bytes().enumerate() {
            let plain = matches!(byte, b'!'..=b'<' | b'>'..=b'~') || (byte == b' ' && place < last);
            let piece = if plain {
                char::from(byte).to_string()
            } else {
                format!("={byte:02X}")
            };
            if column + piece.len() >= ENCODED_LINE {
                encoded += "=\r\n";
                column = 0;
            }
            column += piece.len();
            encoded += &piece;
        }
        lines.push(encoded);
    }
    lines.join("\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(text: &str, mail: &str) -> Option<String> {
        let settings = SignatureSettings {
            text: text.to_owned(),
            ..SignatureSettings::default()
        };
        let signature = SignatureCheck::new(&settings).expect("a signature");
        let signed = signature.sign(mail.as_bytes(), 0)?;
        Some(String::from_utf8(signed).expect("text"))
    }

    #[test]
    fn plain_text_gets_it_below_once() {
        let mail = "Subject: a\r\n\r\nhello\r\n";
        let once = signed("Anna\nOffice", mail).expect("signed");
        assert_eq!(once, "Subject: a\r\n\r\nhello\r\n-- \r\nAnna\r\nOffice\r\n");
        assert_eq!(signed("Anna\nOffice", &once), None);
        // No letters beyond ASCII if the part declares that it has none.
        assert_eq!(signed("Jürgen", mail), None);
    }

    #[test]
    fn both_forms_of_an_alternative_get_it_and_attachments_do_not() {
        let mail = "Content-Type: multipart/mixed; boundary=\"m\"\r\n\r\n--m\r\n\
            Content-Type: multipart/alternative; boundary=a\r\n\r\n\
            --a\r\nContent-Type: text/plain\r\n\r\nhello\r\n\
            --a\r\nContent-Type: text/html\r\n\r\n<body>hello</body>\r\n--a--\r\n\
            --m\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nfile\r\n\
            --m--\r\n";
        let once = signed("Anna <x>", mail).expect("signed");
        assert!(
            once.contains("hello\r\n-- \r\nAnna <x>\r\n\r\n--a\r\n"),
            "{once}"
        );
        assert!(
            once.contains("<body>hello\r\nAnna &lt;x>\r\n</body>\r\n--a--"),
            "{once}"
        );
        assert!(once.contains("\r\n\r\nfile\r\n--m--"), "{once}");
        let pgp = "Content-Type: multipart/signed; boundary=s\r\n\r\n--s\r\n\r\nhello\r\n--s--\r\n";
        assert_eq!(signed("Anna", pgp), None);
    }

    #[test]
    fn encodings_stay_and_decode_to_the_text() {
        let head = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: ";
        let once = signed("Jürgen", &format!("{head}base64\r\n\r\naGVsbG8=\r\n")).expect("signed");
        let encoded = once
            .split("\r\n\r\n")
            .nth(1)
            .expect("a body")
            .replace("\r\n", "");
        let decoded = BASE64.decode(encoded).expect("base64");
        assert_eq!(decoded, "hello\r\n-- \r\nJürgen\r\n".as_bytes());
        let wide = "Content-Type: text/plain; charset=\"UTF-16LE\"\r\n\
            Content-Transfer-Encoding: base64\r\n\r\naABpAA==\r\n";
        assert_eq!(signed("Anna", wide), None);
        let once = signed(
            "Jürgen",
            &format!("{head}quoted-printable\r\n\r\nhello\r\n"),
        );
        assert!(
            once.expect("signed")
                .ends_with("hello\r\n--=20\r\nJ=C3=BCrgen\r\n")
        );
    }
}
