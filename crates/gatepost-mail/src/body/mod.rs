//! The texts that `body` and `rawbody` rules match.

mod collapse;

use std::borrow::Cow;

use super::charset::{CharsetTrust, Decoded, decode, decode_utf8_only};
use super::html::{RenderedHtml, render};
use super::lines::Lines;
use super::part::MimePart;
use super::view_settings::ViewSettings;
use collapse::Collapser;

/// The longest line of a body, in bytes.
const LINE_LENGTH_MAX: usize = 2048;
/// The number of bytes by which a text may exceed its limit to end at a line or word.
const CUT_SLACK: usize = 1024;

/// The part of the text of HTML parts that a view contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// All text.
    All,
    /// Visible text.
    Visible,
    /// Hidden text.
    Invisible,
}

/// The text of one part.
pub(crate) struct PartText<'a> {
    text: Cow<'a, str>,
    characters: bool,
}

impl PartText<'_> {
    /// The text itself.
    pub(crate) fn into_text(self) -> String {
        self.text.into_owned()
    }
}

/// The characters of a text part, from its first bytes or all of them.
fn characters<'a>(part: &MimePart, bytes: &'a [u8], settings: &ViewSettings) -> Decoded<'a> {
    let charset = part.charset.as_deref().unwrap_or(b"us-ascii");
    if settings.decodes_charsets {
        decode(bytes, charset, CharsetTrust::Guess)
    } else {
        decode_utf8_only(bytes, charset)
    }
}

/// Renders an HTML part, up to the limit of its size; `None` if it is not HTML, or empty.
pub(crate) fn render_part(part: &MimePart, settings: &ViewSettings) -> Option<RenderedHtml> {
    let length_max = settings.limits.html_size_max.as_usize();
    let bytes = part.decoded();
    if part.effective_type() != "text/html" || bytes.is_empty() {
        return None;
    }
    let is_cut = bytes.len() > length_max;
    let bytes = bytes.get(..length_max).unwrap_or(bytes);
    let decoded = characters(part, bytes, settings);
    // SpamAssassin's parser makes characters of bytes that were not decoded, one of each.
    let characters = decoded.characters || !settings.decodes_charsets;
    let mut rendered = render(&decoded.text, characters, bytes.len());
    rendered.is_cut = is_cut;
    Some(rendered)
}

/// The text of a part, rendered if it is HTML; `None` if it is not text.
pub(crate) fn part_text<'a>(
    part: &'a MimePart,
    rendered: Option<&'a RenderedHtml>,
    visibility: Visibility,
    settings: &ViewSettings,
) -> Option<PartText<'a>> {
    if let Some(rendered) = rendered {
        let text = match visibility {
            Visibility::All => Cow::Borrowed(rendered.text.as_str()),
            Visibility::Visible if !rendered.has_unseen() => Cow::Borrowed(rendered.text.as_str()),
            Visibility::Visible => Cow::Owned(rendered.pieces(false)),
            Visibility::Invisible => Cow::Owned(rendered.pieces(true)),
        };
        return Some(PartText {
            text,
            characters: rendered.characters,
        });
    }
    if !matches!(part.effective_type(), "text/plain" | "text/html") {
        return None;
    }
    if visibility == Visibility::Invisible {
        return Some(PartText {
            text: Cow::Borrowed(""),
            characters: false,
        });
    }
    let decoded = characters(part, part.decoded(), settings);
    Some(PartText {
        text: decoded.text,
        characters: decoded.characters,
    })
}

/// The lines of a `body` view: the subject, which ends with a line feed or is empty, then the texts
/// of all parts with white space collapsed, one line per paragraph.
pub(crate) fn body_lines<'a>(
    subject: &[u8],
    parts: impl Iterator<Item = Option<PartText<'a>>>,
    part_length_max: usize,
) -> Lines {
    let parts: Vec<Option<PartText<'_>>> = parts.collect();
    let characters = parts.iter().flatten().any(|part| part.characters);
    let length = parts.iter().flatten().map(|part| part.text.len()).sum();
    let mut text = Collapser::after(subject, length, characters);
    for part in &parts {
        if !text.is_untouched() {
            text.push("\n");
        }
        if let Some(part) = part {
            text.push(cut(&part.text, part_length_max));
        }
    }
    // The subject ends its line, so that the first paragraph starts one.
    let text = text.finish();
    let ends = short_lines(&text);
    Lines::cut(text, ends)
}

/// Cuts a text at its limit, in characters, or a little after it at the end of a line or word.
fn cut(text: &str, length_max: usize) -> &str {
    if length_max == 0 || text.len() <= length_max {
        return text;
    }
    let Some(limit) = nth_character(text, length_max) else {
        return text;
    };
    let slack = text
        .get(limit..)
        .and_then(|rest| nth_character(rest, CUT_SLACK + 1))
        .map_or(text.len(), |at| limit + at);
    let window = text.as_bytes().get(limit..slack).unwrap_or_default();
    let end = memchr::memchr(b'\n', window)
        .or_else(|| memchr::memchr(b' ', window))
        .map_or(limit, |at| limit + at + 1);
    text.get(..end).unwrap_or(text)
}

/// The position of character number `count`; `None` if there are not more than `count`.
fn nth_character(text: &str, count: usize) -> Option<usize> {
    if text.is_ascii() {
        return (text.len() > count).then_some(count);
    }
    text.char_indices().nth(count).map(|(at, _)| at)
}

/// The ends of the lines of `text`; long lines are divided after a blank.
fn short_lines(text: &[u8]) -> Vec<usize> {
    let (mut ends, mut end) = (Vec::new(), 0);
    for line in super::ascii::lines(text) {
        let mut rest = line;
        while rest.len() > LINE_LENGTH_MAX {
            let window = rest.get(..=LINE_LENGTH_MAX).unwrap_or_default();
            let length = memchr::memrchr(b' ', window).map_or(LINE_LENGTH_MAX, |at| at + 1);
            end += length;
            ends.push(end);
            rest = rest.get(length..).unwrap_or_default();
        }
        end += rest.len();
        ends.push(end);
    }
    ends
}

/// The chunks of a `rawbody` view: decoded text parts without rendering.
pub(crate) fn raw_chunks<'a>(
    parts: impl Iterator<Item = &'a MimePart>,
    part_length_max: usize,
) -> Lines {
    let mut lines = Lines::default();
    for part in parts {
        let is_text = ["text", "message"].iter().any(|kind| {
            part.effective_type()
                .strip_prefix(kind)
                .is_some_and(|rest| {
                    !rest
                        .starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
                })
        });
        if is_text && part.media_type != "text/calendar" {
            push_chunks(cut_raw(part.decoded(), part_length_max), &mut lines);
        }
    }
    lines
}

fn cut_raw(text: &[u8], length_max: usize) -> &[u8] {
    if length_max == 0 || text.len() <= length_max {
        return text;
    }
    let window = text
        .get(length_max..(length_max + CUT_SLACK + 1).min(text.len()))
        .unwrap_or_default();
    let end = [b'\n', b'>', b' ']
        .iter()
        .find_map(|&mark| memchr::memchr(mark, window));
    text.get(..end.map_or(length_max, |at| length_max + at + 1))
        .unwrap_or(text)
}

/// Chunks of between one and two line lengths that end where a line, tag or word does.
fn push_chunks(text: &[u8], lines: &mut Lines) {
    lines.reserve(text.len());
    let mut rest = text;
    if rest.len() <= LINE_LENGTH_MAX {
        lines.push(rest);
        return;
    }
    while rest.len() > 2 * LINE_LENGTH_MAX {
        let window = rest
            .get(LINE_LENGTH_MAX..2 * LINE_LENGTH_MAX)
            .unwrap_or_default();
        let end = [b'\n', b'>', b' ']
            .iter()
            .find_map(|&mark| memchr::memchr(mark, window))
            .unwrap_or(0);
        let (head, tail) = rest.split_at(LINE_LENGTH_MAX + end + 1);
        lines.push(head);
        rest = tail;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let part = PartText {
            text: Cow::Borrowed(text),
            characters: true,
        };
        body_lines(b"s\n", std::iter::once(Some(part)), 50_000)
            .iter()
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    #[test]
    fn paragraphs_are_lines() {
        assert_eq!(
            lines("a\nb  c \n \n\t d\0e\n"),
            ["s\n", "a b c \n", " d\n", "e "]
        );
        assert_eq!(lines("a\u{a0}\u{2003}b"), ["s\n", "a b"]);
        assert_eq!(lines(""), ["s\n"]);
    }

    #[test]
    fn long_lines_break_at_blanks() {
        let text = format!("{} {}", "a".repeat(2000), "b".repeat(3000));
        let lengths: Vec<usize> = lines(&text).iter().map(String::len).collect();
        assert_eq!(lengths, [2, 2001, 2048, 952]);
    }

    #[test]
    fn chunks_end_at_lines() {
        let text = "0123456789\n".repeat(1000);
        let mut chunks = Lines::default();
        push_chunks(text.as_bytes(), &mut chunks);
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk.ends_with(b"\n") && chunk.len() <= 4096)
        );
        assert_eq!(chunks.text(), text.as_bytes());
    }
}
