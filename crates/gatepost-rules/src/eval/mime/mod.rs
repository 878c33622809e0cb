//! MIMEEval: the structure, encodings and character sets of MIME parts.

mod findings;

use gatepost_mail::lines;

use super::ScannedMail;
use super::{Entry, bound, locale, pattern, plain};
pub(super) use findings::MimeFindings;
use findings::{PartHead, find};

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

fn findings<'a>(mail: &'a ScannedMail<'_>) -> &'a MimeFindings {
    mail.findings().mime.get_or_init(|| find(mail))
}

fn is_html_message(mail: &ScannedMail<'_>) -> bool {
    let text = mail.header_text("Content-Type").unwrap_or_default();
    text.get(..9)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"text/html"))
}

fn parse_flag(mail: &ScannedMail<'_>, flag: &str) -> bool {
    let flags = mail.parts().flags;
    match flag {
        "missing_head_body_separator" => mail.head().separator_missing,
        "truncated_header" => mail.head().truncated,
        "missing_mime_headers" => flags.part_head_missing,
        "missing_mime_head_body_separator" => flags.part_separator_missing,
        "mime_epilogue_exists" => flags.epilogue,
        "mimepart_limit_exceeded" => flags.too_many_parts,
        _ => false,
    }
}

/// The character set in the raw field, as MIMEEval reads it.
fn field_charset(mail: &ScannedMail<'_>) -> Option<String> {
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

fn faraway_charset(mail: &ScannedMail<'_>) -> bool {
    let locales = &mail.settings().locales;
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
    concat!(
        r"^[-_a-z0-9]*(?:koi|jp|jis|euc|gb|big5|isoir|cp1251|windows-1251|georgianps|pt154",
        r"|tis)[-_a-z0-9]*$",
    ),
    "i"
);
pattern!(BASE64_LINES, r"^(?:[A-Za-z0-9+/=]{60,76} ){2}");

/// The shortest text for which the share of capitals is meaningful, in bytes.
const UPPERCASE_TEXT_MIN: usize = 200;

fn uppercase_percent(mail: &ScannedMail<'_>) -> f64 {
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
            lower += count(&line, |byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit()
            });
            upper += count(&line, |byte| byte.is_ascii_uppercase());
        }
    }
    if length < UPPERCASE_TEXT_MIN || upper + lower == 0 {
        return 0.0;
    }
    upper as f64 / (upper + lower) as f64 * 100.0
}

/// The number of bytes of a kind; single-byte comparisons, which the compiler vectorises.
fn count(text: &[u8], is_wanted: impl Fn(u8) -> bool) -> usize {
    let counted = text.chunks(usize::from(u8::MAX)).map(|chunk| {
        let wanted = chunk.iter().map(|&byte| u8::from(is_wanted(byte)));
        usize::from(wanted.fold(0u8, u8::wrapping_add))
    });
    counted.sum()
}

/// Removes ISO 2022 Japanese, whose bytes are capitals.
fn without_shifted_text(line: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if memchr::memchr(0x1b, line).is_none() {
        return std::borrow::Cow::Borrowed(line);
    }
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

fn alternative_has_non_text(mail: &ScannedMail<'_>) -> bool {
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
fn base64_line_length(mail: &ScannedMail<'_>) -> usize {
    let parts = mail.parts().leaves().filter(|part| {
        let head = PartHead::of(part);
        head.media_type != "application/ics" && head.encoding == "base64"
    });
    parts
        .flat_map(|part| lines(part.raw()).map(<[u8]>::len))
        .max()
        .unwrap_or(0)
}
