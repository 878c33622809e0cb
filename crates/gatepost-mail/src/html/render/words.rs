//! White space and words of a document: collapsed blanks, and words that tags divide.

use super::Renderer;

/// The longest run of letters beside a tag that counts as part of a divided word.
const CUT_WORD_LENGTH_MAX: usize = 7;

impl Renderer {
    /// Records words that a tag divides, a technique to hide words from filters.
    pub(super) fn note_cut_words(&mut self, text: &str) {
        if self.pieces.last().is_none() {
            return;
        }
        let start = self.pieces.start_of_last();
        let before = self.text.get(start..).unwrap_or_default();
        let ends_in_letter = before
            .chars()
            .next_back()
            .is_some_and(|letter| is_letter(letter, self.characters));
        if !ends_in_letter {
            return;
        }
        if text
            .chars()
            .next()
            .is_some_and(|letter| is_letter(letter, self.characters))
        {
            self.counts.obfuscation += 1;
        } else {
            return;
        }
        let end = run_length(before.chars().rev(), self.characters);
        let begin = run_length(text.chars(), self.characters);
        if let (Some(end), Some(begin)) = (end, begin) {
            self.cut_words |= 1 << ((end - 1) * CUT_WORD_LENGTH_MAX + begin - 1);
        }
    }
}

pub(super) const fn is_html_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b)
}

pub(super) fn is_blank(text: &str) -> bool {
    // Undecoded UTF-8 of a no-break space is four bytes long.
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match rest.strip_prefix("\u{c2}\u{a0}".as_bytes()) {
            Some(tail) => tail,
            None if is_html_space(byte) => tail,
            None => return false,
        };
    }
    true
}

/// Appends `text` with each run of white space replaced by one blank.
pub(super) fn collapse(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if is_html_space(byte) {
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push(' ');
            while bytes.get(at).copied().is_some_and(is_html_space) {
                at += 1;
            }
            from = at;
        } else if byte == 0xc3 && bytes.get(at..at + 4) == Some(&[0xc3, 0x82, 0xc2, 0xa0]) {
            // Undecoded UTF-8 of a no-break space.
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push(' ');
            at += 4;
            from = at;
        } else {
            at += 1;
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
}

/// Neither white space nor ASCII punctuation.
pub(super) fn is_letter(letter: char, characters: bool) -> bool {
    let space = if characters {
        letter.is_whitespace()
    } else {
        letter.is_ascii() && crate::ascii::is_space(letter as u8)
    };
    !space && !letter.is_ascii_punctuation()
}

/// The number of adjacent letters, if at most seven of them end at a word boundary.
pub(super) fn run_length(letters: impl Iterator<Item = char>, characters: bool) -> Option<usize> {
    let is_word = |letter: char| {
        if characters {
            letter.is_alphanumeric() || letter == '_'
        } else {
            letter.is_ascii_alphanumeric() || letter == '_'
        }
    };
    let window: smallvec::SmallVec<[char; 8]> = letters.take(CUT_WORD_LENGTH_MAX + 1).collect();
    let run = window
        .iter()
        .take(CUT_WORD_LENGTH_MAX)
        .take_while(|&&letter| is_letter(letter, characters))
        .count();
    (1..=run).rev().find(|&length| {
        let inside = window.get(length - 1).copied().is_some_and(is_word);
        let outside = window.get(length).copied().is_some_and(is_word);
        inside != outside
    })
}
