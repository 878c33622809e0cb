//! PDFInfo: the metadata of attached PDF files, and the size of their images.
//!
//! A file is read line by line, as text: compressed parts are not decompressed.

use std::collections::BTreeSet;

use gatepost_mail::MimePart;
use md5::{Digest, Md5};

use super::ScannedMail;
use super::{Entry, bound, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("pdf_count", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| range.low.is_some() && range.holds_between(files(mail).count as f64))
    }),
    ("pdf_image_count", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| range.low.is_some() && range.holds_between(files(mail).images as f64))
    }),
    ("pdf_pixel_coverage", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            let pixels = files(mail).pixels;
            pixels > 0 && range.holds_between(pixels as f64)
        })
    }),
    ("pdf_image_to_text_ratio", |arguments| {
        let (low, high) = (arguments.number(0)?, arguments.number(1)?);
        bound(move |mail| {
            let letters: usize = mail.body().iter().map(<[u8]>::len).sum();
            let ratio = letters as f64 / files(mail).pixels as f64;
            letters > 0 && files(mail).pixels > 0 && ratio >= low && ratio < high
        })
    }),
    ("pdf_image_size_exact", |arguments| {
        let size = (arguments.number(0)? as u64, arguments.number(1)? as u64);
        bound(move |mail| files(mail).sizes.contains(&size))
    }),
    ("pdf_image_size_range", |arguments| {
        let low = (arguments.number(0)?, arguments.number(1)?);
        let high = (arguments.limit(2)?, arguments.limit(3)?);
        bound(move |mail| {
            files(mail).sizes.iter().any(|&(height, width)| {
                let (height, width) = (height as f64, width as f64);
                height >= low.0
                    && width >= low.1
                    && high.0.is_none_or(|high| height <= high)
                    && high.1.is_none_or(|high| width <= high)
            })
        })
    }),
    ("pdf_named", |arguments| {
        let name = arguments.text(0)?.as_bytes().to_vec();
        bound(move |mail| files(mail).names.contains(&name))
    }),
    ("pdf_name_regex", |arguments| {
        let pattern = arguments.pattern(0)?;
        bound(move |mail| files(mail).names.iter().any(|name| pattern.is_match(name)))
    }),
    ("pdf_match_md5", |arguments| {
        let hash = arguments.text(0)?.to_ascii_uppercase();
        bound(move |mail| files(mail).hashes.contains(&hash))
    }),
    ("pdf_match_fuzzy_md5", |arguments| {
        let hash = arguments.text(0)?.to_ascii_uppercase();
        bound(move |mail| files(mail).fuzzy_hashes.contains(&hash))
    }),
    ("pdf_match_details", |arguments| {
        let (detail, pattern) = (arguments.text(0)?.to_owned(), arguments.pattern(1)?);
        bound(move |mail| {
            let details = files(mail).details.iter();
            details
                .filter(|(name, _)| *name == detail)
                .any(|(_, text)| pattern.is_match(text))
        })
    }),
    ("pdf_is_encrypted", |_| {
        plain(|mail| files(mail).is_encrypted)
    }),
    ("pdf_is_empty_body", |arguments| {
        let most = arguments.limit(0)?.unwrap_or(0.0);
        bound(move |mail| {
            let lines = mail.body().iter().skip(1);
            let texts = lines.filter(|line| !line.trim_ascii().is_empty());
            let letters: usize = texts.map(<[u8]>::len).sum();
            files(mail).count > 0 && letters as f64 <= most
        })
    }),
];

/// The range in which the magic number of a PDF file must occur, in bytes.
const MARK_WITHIN_BYTES: usize = 1024;
/// The number of lines in the fuzzy hash.
const FUZZY_LINES_MAX: usize = 70;
/// The longest detail that is kept.
const DETAIL_BYTES_MAX: usize = 256;

/// The data of all PDF files of a message.
#[derive(Debug, Default)]
pub(super) struct PdfFiles {
    count: usize,
    images: usize,
    /// Data of the last file with images.
    pixels: u64,
    /// Heights and widths.
    sizes: BTreeSet<(u64, u64)>,
    names: BTreeSet<Vec<u8>>,
    hashes: BTreeSet<String>,
    fuzzy_hashes: BTreeSet<String>,
    details: Vec<(&'static str, Vec<u8>)>,
    is_encrypted: bool,
}

fn files<'m>(mail: &'m ScannedMail<'_>) -> &'m PdfFiles {
    mail.findings().pdf.get_or_init(|| find(mail))
}

fn find(mail: &ScannedMail<'_>) -> PdfFiles {
    let mut files = PdfFiles::default();
    for part in mail.parts().leaves() {
        let is_pdf = matches!(part.media_type.as_str(), "image/pdf" | "application/pdf");
        let is_stream = matches!(
            part.media_type.as_str(),
            "image/octet-stream" | "application/octet-stream"
        );
        let name = part
            .name
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_named = name.ends_with(b".pdf") || name.ends_with(b".fdf");
        if is_pdf || is_stream && is_named {
            files.count += 1;
            files.read(part);
        }
    }
    files
}

pattern!(PLACED, r"^(\d+)\s+\d+\s+\d+\s+(\d+)\s+\d+\s+\d+\s+cm$");
pattern!(WIDTH, r"^/Width\s(\d+)");
pattern!(HEIGHT, r"^/Height\s(\d+)");
pattern!(WIDTH_AND_HEIGHT, r"/Width\s(\d+)/Height\s(\d+)");
pattern!(
    CHANGING,
    r"^%|^/(?:Height|Width|(?:Media|Crop)Box)|^\d+\s+\d+\s+\d+\s+\d+\s+\d+\s+\d+\s+cm$"
);
pattern!(TAG, r"^/([A-Za-z]+)");
pattern!(AUTHOR, r"/Author\s{0,2}(\(.*?(?<!\\)\)|<[^>]*>)");
pattern!(CREATOR, r"/Creator\s{0,2}(\(.*?(?<!\\)\)|<[^>]*>)");
pattern!(PRODUCER, r"/Producer\s{0,2}(\(.*?(?<!\\)\)|<[^>]*>)");
pattern!(TITLE, r"/Title\s{0,2}(\(.*?(?<!\\)\)|<[^>]*>)");
pattern!(CREATED, r"/CreationDate\s{0,2}\(D:(\d+)");
pattern!(MODIFIED, r"/ModDate\s{0,2}\(D:(\d+)");

impl PdfFiles {
    fn read(&mut self, part: &MimePart) {
        let data = part.decoded();
        let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
        let beginning = data
            .get(..data.len().min(MARK_WITHIN_BYTES + 8))
            .unwrap_or_default();
        if memchr::memmem::find(beginning, b"%PDF-").is_none() {
            return;
        }
        self.names
            .extend(part.name.clone().filter(|name| !name.is_empty()));
        let mut fuzzy = Vec::new();
        let mut is_fuzzy = true;
        let mut tags = Vec::new();
        let mut has_image = false;
        let (mut height_sum, mut width_sum, mut pixels) = (0_u64, 0_u64, 0_u64);
        let lines = data
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        for (index, line) in lines.enumerate() {
            if is_fuzzy && index + 1 < FUZZY_LINES_MAX {
                if !CHANGING.is_match(line) {
                    fuzzy.extend_from_slice(line.trim_ascii_end());
                }
                is_fuzzy = memchr::memmem::find(line, b"stream").is_none();
            }
            has_image |= memchr::memmem::find(line, b"/Image").is_some();
            self.is_encrypted |= line.starts_with(b"/Encrypt");
            if has_image && let Some((height, width)) = size(line) {
                is_fuzzy = false;
                has_image = false;
                height_sum = height_sum.saturating_add(height);
                width_sum = width_sum.saturating_add(width);
                pixels = pixels.saturating_add(height.saturating_mul(width));
                self.sizes.insert((height, width));
                self.images += 1;
            }
            if memchr::memchr(b'/', line).is_none() {
                continue;
            }
            tags.extend_from_slice(TAG.group(line, 1).unwrap_or_default());
            self.note_details(line);
        }
        if height_sum > 0 && width_sum > 0 {
            self.sizes.insert((height_sum, width_sum));
        }
        if pixels > 0 {
            self.pixels = pixels;
        }
        self.hashes.insert(hash(data));
        self.fuzzy_hashes
            .extend((!fuzzy.is_empty()).then(|| hash(&fuzzy)));
        self.fuzzy_hashes
            .extend((!tags.is_empty()).then(|| hash(&tags)));
    }

    fn note_details(&mut self, line: &[u8]) {
        for (name, found) in [
            ("author", AUTHOR.group(line, 1)),
            ("creator", CREATOR.group(line, 1)),
            ("producer", PRODUCER.group(line, 1)),
            ("title", TITLE.group(line, 1)),
            ("created", CREATED.group(line, 1)),
            ("modified", MODIFIED.group(line, 1)),
        ] {
            if let Some(text) = found.map(string)
                && !self
                    .details
                    .iter()
                    .any(|(known, known_text)| *known == name && *known_text == text)
            {
                self.details.push((name, text));
            }
        }
    }
}

/// The height and width, if one line has both.
fn size(line: &[u8]) -> Option<(u64, u64)> {
    let number = |text: &[u8]| {
        std::str::from_utf8(text)
            .ok()?
            .parse()
            .ok()
            .filter(|&number| number > 0)
    };
    // A line with only one of the two is ignored: SpamAssassin forgets it before the next line.
    if WIDTH_AND_HEIGHT.is_match(line) && !WIDTH.is_match(line) && !HEIGHT.is_match(line) {
        return Some((
            number(WIDTH_AND_HEIGHT.group(line, 2)?)?,
            number(WIDTH_AND_HEIGHT.group(line, 1)?)?,
        ));
    }
    Some((
        number(PLACED.group(line, 2)?)?,
        number(PLACED.group(line, 1)?)?,
    ))
}

fn hash(data: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(32);
    for byte in Md5::digest(data) {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// A PDF string: `(text)` with escapes, or `<hexadecimal>`.
fn string(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(digits) = text.strip_prefix(b"<") {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let digits: Vec<u32> = digits.iter().filter_map(digit).collect();
        out.extend(
            digits
                .chunks_exact(2)
                .map(|pair| (pair[0] << 4 | pair[1]) as u8),
        );
    } else {
        let inner = text.strip_prefix(b"(").unwrap_or(text);
        let mut rest = inner.strip_suffix(b")").unwrap_or(inner);
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let octal = after.get(..3).filter(|digits| {
                (b'0'..=b'3').contains(&digits[0])
                    && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
            });
            match (byte, octal, after.first()) {
                (b'\\', Some(digits), _) => {
                    out.push(
                        digits
                            .iter()
                            .fold(0_u8, |value, digit| value << 3 | (digit - b'0')),
                    );
                    rest = after.get(3..).unwrap_or_default();
                }
                (b'\\', None, Some(&escaped @ (b'(' | b')' | b'\\'))) => {
                    out.push(escaped);
                    rest = after.get(1..).unwrap_or_default();
                }
                _ => out.push(byte),
            }
        }
    }
    if out.starts_with(b"\xfe\xff") || out.starts_with(b"\xff\xfe") {
        out.drain(..2);
        out.retain(|&byte| byte != 0);
    }
    out.truncate(DETAIL_BYTES_MAX);
    out
}
