//! MIMEEval: how the parts are written.

use super::{Entry, bound, locale, pattern, plain};
use crate::mail::{ContentType, Mail, Part, lines};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_for_mime", |arguments| {
        let test = arguments.text(0)?.to_owned();
        bound(move |mail| {
            findings(mail)
                .number(&test)
                .is_some_and(|value| value != 0.0)
        })
    }),
    ("check_for_mime_html", |_| {
        plain(|mail| is_html_message(mail) || findings(mail).html_parts > 0)
    }),
    ("check_for_mime_html_only", |_| {
        plain(|mail| {
            is_html_message(mail) || findings(mail).html_parts > 0 && findings(mail).text_parts == 0
        })
    }),
    ("check_mime_multipart_ratio", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| range.holds(findings(mail).multipart_ratio))
    }),
    ("check_msg_parse_flags", |arguments| {
        let flag = arguments.text(0)?.to_owned();
        bound(move |mail| parse_flag(mail, &flag))
    }),
    ("check_for_ascii_text_illegal", |_| {
        plain(|mail| findings(mail).ascii_text_illegal)
    }),
    ("check_abundant_unicode_ratio", |arguments| {
        let ratio = arguments.number(0)?;
        bound(move |mail| findings(mail).unicode_ratio >= ratio)
    }),
    ("check_for_faraway_charset", |_| plain(faraway_charset)),
    ("check_for_uppercase", |arguments| {
        let (low, high) = (arguments.number(0)?, arguments.number(1)?);
        bound(move |mail| {
            let percent = mail
                .findings()
                .uppercase_percent
                .get_or_init(|| uppercase_percent(mail));
            let percent = *percent;
            percent > low && percent <= high
        })
    }),
    ("check_ma_non_text", |_| plain(alternative_has_non_text)),
    ("check_base64_length", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| range.holds_between(base64_line_length(mail) as f64))
    }),
    ("check_qp_ratio", |arguments| {
        let low = arguments.number(0)?;
        bound(move |mail| findings(mail).quoted_ratio >= low)
    }),
];

/// Counts over all parts.
#[derive(Clone, Debug, Default)]
pub(super) struct MimeFindings {
    base64_parts: u32,
    base64_encoded_text: bool,
    html_parts: u32,
    text_parts: u32,
    attachment: bool,
    faraway_charset: bool,
    bad_iso_charset: bool,
    boundary_missing: bool,
    alternative: bool,
    multipart_ratio: f64,
    quoted_count: i64,
    quoted_long_line: bool,
    quoted_ratio: f64,
    ascii_text_illegal: bool,
    unicode_ratio: f64,
    charsets: Vec<String>,
}

impl MimeFindings {
    /// A finding by SpamAssassin's name.
    fn number(&self, name: &str) -> Option<f64> {
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

fn findings<'a>(mail: &'a Mail<'_>) -> &'a MimeFindings {
    mail.findings().mime.get_or_init(|| find(mail))
}

fn is_html_message(mail: &Mail<'_>) -> bool {
    let text = mail.header_text("Content-Type").unwrap_or_default();
    text.get(..9)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"text/html"))
}

/// What the head of a part says, in lower case.
struct PartHead {
    media_type: String,
    encoding: String,
    disposition: String,
    charset: Option<String>,
}

impl PartHead {
    fn of(part: &Part) -> Self {
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
    r"us-ascii|ansi_x3\.4-1968|iso-ir-6|ansi_x3\.4-1986|iso_646\.irv:1991|ascii|iso646-us|us|ibm367|cp367|csascii"
);
pattern!(ODD_ISO_CHARSET, r"iso-\S+-\S+\b", "i");
pattern!(KNOWN_ISO_CHARSET, r"iso-(?:8859-\d{1,2}|2022-(?:jp|kr))\b");

/// Sums over the lines of the parts.
#[derive(Default)]
struct Sums {
    quoted_bytes: usize,
    quoted: i64,
    normal: usize,
    unicode: usize,
    /// Type and size of each part shown in place.
    shown: Vec<(String, usize)>,
}

fn find(mail: &Mail<'_>) -> MimeFindings {
    let mut found = MimeFindings {
        multipart_ratio: 1.0,
        ..MimeFindings::default()
    };
    let mut sums = Sums::default();
    for part in mail.parts().all() {
        let head = PartHead::of(part);
        found.alternative |= head.media_type == "multipart/alternative";
        found.note_head(&head, &mail.configuration().lists.locales);
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

    fn note_lines(&mut self, part: &Part, head: &PartHead, sums: &mut Sums) {
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
            self.ascii_text_illegal |= raw.iter().any(|byte| matches!(byte, 0 | b'\r' | 0x80..));
        }
        if matches!(head.encoding.as_str(), "" | "7bit" | "8bit") {
            let entities = memchr::memmem::find_iter(raw, b"&#x")
                .filter(|&at| is_unicode_entity(raw, at))
                .count();
            sums.unicode += entities;
            sums.normal += raw.len() - entities * UNICODE_ENTITY_LENGTH;
        }
    }

    fn note_quoted(&mut self, line: &[u8], sums: &mut Sums) {
        // RFC 5322 section 2.1.1 recommends lines of no more than 78 characters.
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

/// Length of `&#xABCD;`.
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

fn parse_flag(mail: &Mail<'_>, flag: &str) -> bool {
    let oddities = mail.parts().oddities;
    match flag {
        "missing_head_body_separator" => mail.head().separator_missing,
        "truncated_header" => mail.head().truncated,
        "missing_mime_headers" => oddities.part_head_missing,
        "missing_mime_head_body_separator" => oddities.part_separator_missing,
        "mime_epilogue_exists" => oddities.epilogue,
        "mimepart_limit_exceeded" => oddities.too_many_parts,
        _ => false,
    }
}

/// The character set in the raw field, as MIMEEval reads it.
fn field_charset(mail: &Mail<'_>) -> Option<String> {
    let text = String::from_utf8_lossy(&mail.header_text("Content-Type")?).into_owned();
    let lower = text.to_ascii_lowercase();
    let rest = text.get(lower.find("charset=")? + 8..)?;
    for quote in ['"', '\''] {
        if let Some((value, _)) = rest
            .strip_prefix(quote)
            .and_then(|inner| inner.split_once(quote))
            && !value.is_empty()
        {
            return Some(value.to_owned());
        }
    }
    rest.split_ascii_whitespace()
        .next()
        .filter(|_| !rest.starts_with(char::is_whitespace))
        .map(str::to_owned)
}

fn faraway_charset(mail: &Mail<'_>) -> bool {
    let locales = &mail.configuration().lists.locales;
    let far = !locale::is_any(locales)
        && field_charset(mail).is_some_and(|charset| !locale::is_expected(&charset, locales));
    far && {
        let text = mail.body().text();
        let high = text.iter().filter(|byte| !byte.is_ascii()).count();
        high > 3 && text.len() - high <= high
    }
}

pattern!(
    CAPS_CHARSET,
    r"^[-_a-z0-9]*(?:koi|jp|jis|euc|gb|big5|isoir|cp1251|windows-1251|georgianps|pt154|tis)[-_a-z0-9]*$",
    "i"
);
pattern!(BASE64_LINES, r"^(?:[A-Za-z0-9+/=]{60,76} ){2}");

/// Fewest bytes of text of which capitals mean something.
const UPPERCASE_TEXT_MIN: usize = 200;

fn uppercase_percent(mail: &Mail<'_>) -> f64 {
    let charsets = field_charset(mail);
    if charsets
        .iter()
        .chain(&findings(mail).charsets)
        .any(|charset| CAPS_CHARSET.is_match(charset.as_bytes()))
    {
        return 0.0;
    }
    let (mut length, mut lower, mut upper) = (0, 0_usize, 0_usize);
    for line in mail.body().iter() {
        if line.trim_ascii().iter().any(u8::is_ascii_whitespace) && !BASE64_LINES.is_match(line) {
            let line = without_shifted_text(line);
            length += line.len();
            lower += line
                .iter()
                .filter(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                .count();
            upper += line.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        }
    }
    if length < UPPERCASE_TEXT_MIN || upper + lower == 0 {
        return 0.0;
    }
    upper as f64 / (upper + lower) as f64 * 100.0
}

/// Without ISO 2022 Japanese, which looks like capitals.
fn without_shifted_text(line: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let start = memchr::memmem::find(line, b"\x1b$B");
    let end = memchr::memmem::rfind(line, b"\x1b(B");
    match (start, end) {
        (Some(start), Some(end)) if start < end => {
            let (before, after) = (
                line.get(..start).unwrap_or_default(),
                line.get(end + 3..).unwrap_or_default(),
            );
            std::borrow::Cow::Owned([before, after].concat())
        }
        _ => std::borrow::Cow::Borrowed(line),
    }
}

fn alternative_has_non_text(mail: &Mail<'_>) -> bool {
    let parts = mail.parts();
    parts
        .all()
        .filter(|part| part.media_type == "multipart/alternative")
        .any(|alternative| {
            parts
                .children(alternative)
                .filter(|part| part.is_leaf)
                .any(|part| {
                    !part.media_type.starts_with("text/")
                        && !matches!(
                            part.media_type.as_str(),
                            "multipart/related" | "application/rtf"
                        )
                })
        })
}

/// The longest line of base64.
fn base64_line_length(mail: &Mail<'_>) -> usize {
    let parts = mail.parts().leaves().filter(|part| {
        let head = PartHead::of(part);
        head.media_type != "application/ics" && head.encoding == "base64"
    });
    parts
        .flat_map(|part| lines(part.raw()).map(<[u8]>::len))
        .max()
        .unwrap_or(0)
}
