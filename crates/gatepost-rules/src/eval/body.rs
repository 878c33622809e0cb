//! BodyEval: ratios and lengths of the body text, and how much its alternatives differ.

use std::collections::HashSet;

use super::ScannedMail;
use super::alternatives::alternative_difference;
use super::{Entry, bound, pattern};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("multipart_alternative_difference", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            let difference = alternative_difference(mail).percent;
            (range.low == Some(0.0) || range.low.is_none_or(|low| difference > low))
                && range.high.is_none_or(|high| difference <= high)
        })
    }),
    ("multipart_alternative_difference_count", |arguments| {
        let (ratio, html_words) = (arguments.number(0)?, arguments.number(1)?);
        bound(move |mail| {
            let found = alternative_difference(mail);
            found.html_words as f64 > html_words
                && found.text_words as f64 / found.html_words as f64 > ratio
        })
    }),
    ("check_blank_line_ratio", |arguments| {
        let (low, high) = (arguments.number(0)?, arguments.number(1)?);
        let lines_min = arguments
            .limit(2)?
            .filter(|&lines| lines >= 1.0)
            .unwrap_or(1.0);
        bound(move |mail| {
            let ratio = blank_line_percent(mail, lines_min);
            ratio <= high && (low == 0.0 || ratio > low)
        })
    }),
    ("tvd_vertical_words", |arguments| {
        let (low, high) = (arguments.number(0)?, arguments.number(1)?);
        let high = if high >= 100.0 { 101.0 } else { high };
        bound(move |mail| {
            let percent = mail
                .body()
                .iter()
                .filter_map(vertical_percent)
                .max()
                .unwrap_or(-1) as f64;
            percent >= low && percent < high
        })
    }),
    ("check_stock_info", |arguments| {
        let low = arguments.number(0)?;
        bound(move |mail| low == 0.0 || stock_words(mail) as f64 >= low)
    }),
    ("check_body_length", |arguments| {
        let high = arguments.number(0)?;
        bound(move |mail| mail.head().body.len() as f64 <= high)
    }),
    ("plaintext_body_length", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            signature_split(mail).is_some_and(|(body, _)| range.holds_between(body as f64))
        })
    }),
    ("plaintext_sig_length", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            signature_split(mail)
                .is_some_and(|(_, signature)| range.holds_between(signature as f64))
        })
    }),
    ("plaintext_body_sig_ratio", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            signature_split(mail).is_some_and(|(body, signature)| {
                let ratio = if signature == 0 {
                    1e6
                } else {
                    body as f64 / signature as f64
                };
                range.holds_between(ratio)
            })
        })
    }),
];

fn blank_line_percent(mail: &ScannedMail<'_>, lines_min: f64) -> f64 {
    let (mut blank, mut all) = (0_usize, 0_usize);
    for chunk in mail.rawbody().iter() {
        // A text that ends with a line end has a further, empty line.
        for line in chunk
            .split_inclusive(|&byte| byte == b'\n')
            .chain(chunk.ends_with(b"\n").then_some(&b""[..]))
        {
            all += 1;
            blank += usize::from(line.iter().all(u8::is_ascii_whitespace));
        }
    }
    if (all as f64) < lines_min {
        -1.0
    } else {
        100.0 * blank as f64 / all as f64
    }
}

/// The blanks of a line, in percent of the rest.
fn vertical_percent(line: &[u8]) -> Option<i64> {
    if line.len() <= 5 {
        return None;
    }
    let spaces = memchr::memchr_iter(b' ', line).count();
    let rest = line.len() - spaces;
    Some(if spaces > rest || rest == 0 {
        100
    } else {
        (100 * spaces / rest) as i64
    })
}

pattern!(STOCK_LINE, r"^\s*([^:\s][^:\n]{2,29})\s*:\s*\S", "m");
pattern!(
    STOCK_WORD,
    concat!(
        r"(^trad(?:e|ing)date|company(?:name)?|s\w?(?:t\w?o\w?c\w?k|y\w?m(?:\w?b\w?o\w?l)?)|t",
        r"(?:arget|icker)|(?:opening|current)p(?:rice)?|p(?:rojected|osition)|expectations",
        r"|weeks?high|marketperformance|(?:year|week|month|day|price)(?:target|estimates?)|sector",
        r"|r(?:ecommendation|ating))$",
    )
);

/// The number of different words of stock reports in the text.
fn stock_words(mail: &ScannedMail<'_>) -> usize {
    let Some(part) = mail
        .parts()
        .all()
        .find(|part| part.media_type == "text/plain")
    else {
        return 0;
    };
    let Some(text) = mail.text_of(part) else {
        return 0;
    };
    if !text.contains(':') {
        return 0;
    }
    let mut found = HashSet::new();
    for (start, end) in STOCK_LINE.spans(text.as_bytes()) {
        let line = text.as_bytes().get(start..end).unwrap_or_default();
        let Some(label) = STOCK_LINE.group(line, 1) else {
            continue;
        };
        let letters: Vec<u8> = label
            .to_ascii_lowercase()
            .into_iter()
            .filter(u8::is_ascii_lowercase)
            .collect();
        found.extend(STOCK_WORD.group(&letters, 1).map(<[u8]>::to_vec));
    }
    found.len()
}

pattern!(SIGNATURE, r"^-- ?\r?$", "m");

/// The lengths of the text before and after its last signature separator.
fn signature_split(mail: &ScannedMail<'_>) -> Option<(usize, usize)> {
    let part = mail
        .parts()
        .all()
        .find(|part| part.media_type.starts_with("text/plain"))?;
    let text = part.decoded();
    let last = SIGNATURE
        .spans(text)
        .filter(|(_, end)| text.len() - end > 4)
        .last();
    Some(last.map_or((text.len(), 0), |(start, end)| (start, text.len() - end)))
}
