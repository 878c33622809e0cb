//! Changes to a line before it is divided into words at its blanks.

use super::utf8_following;

/// Keeps letters, digits, the punctuation that words contain, whole UTF-8 sequences and single
/// Latin-1 letters; all other bytes become a space.
pub(super) fn keep_word_bytes(line: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&first, after)) = rest.split_first() {
        let following = utf8_following(first);
        let sequence = rest.get(..=following).filter(|sequence| {
            following > 0
                && sequence
                    .iter()
                    .skip(1)
                    .all(|byte| matches!(byte, 0x80..=0xBF))
        });
        if let Some(sequence) = sequence {
            kept.extend_from_slice(sequence);
            rest = rest.get(following + 1..).unwrap_or_default();
            continue;
        }
        kept.push(if is_word_byte(first) { first } else { b' ' });
        rest = after;
    }
    kept
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0xA1
        || matches!(
            byte,
            b',' | b'@' | b'*' | b'!' | b'_' | b'\'' | b'"' | b'$' | b'.' | b' ' | b'-'
        )
}

/// Separates runs of two (or three) to six dots or dashes between words as words of their own.
/// Since a match consumes the words on both sides, every second run of `a--b--c` stays.
pub(super) fn set_apart(text: &[u8], mark: u8, run_min: usize) -> Vec<u8> {
    const RUN_MAX: usize = 6;
    let is_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut position = 0;
    while let Some(&byte) = text.get(position) {
        out.push(byte);
        position += 1;
        if !is_word(Some(&byte)) {
            continue;
        }
        let run: usize = text
            .iter()
            .skip(position)
            .take_while(|byte| **byte == mark)
            .count();
        let after = text.get(position + run);
        if (run_min..=RUN_MAX).contains(&run) && is_word(after) {
            out.push(b' ');
            out.extend(std::iter::repeat_n(mark, run));
            out.push(b' ');
            out.extend(after);
            position += run + 1;
        }
    }
    out
}

/// Changes the capital at the beginning of the text and of each sentence to lower case, where the
/// words up to the next capital are all in lower case.
pub(super) fn lower_title_case(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut position = 0;
    while position < text.len() {
        let Some(start) = capital_at(text, position) else {
            out.extend(text.get(position));
            position += 1;
            continue;
        };
        let run_start = start + 1;
        let run = text
            .get(run_start..)
            .unwrap_or_default()
            .iter()
            .take_while(|byte| !byte.is_ascii_uppercase())
            .count();
        let run_end = run_start + run;
        // The sentence ends with the text, or with the last space before the next capital.
        let (end, next) = if run_end == text.len() {
            (run_end, run_end)
        } else {
            match text
                .get(run_start..run_end)
                .and_then(|run| run.iter().rposition(|byte| *byte == b' '))
            {
                Some(space) => (run_start + space, run_start + space + 1),
                None => (run_start, run_start),
            }
        };
        if end == run_start {
            out.extend(text.get(position));
            position += 1;
            continue;
        }
        out.push(b' ');
        out.extend(text.get(start).map(u8::to_ascii_lowercase));
        out.extend_from_slice(text.get(run_start..end).unwrap_or_default());
        out.push(b' ');
        position = next;
    }
    out
}

/// The position of the capital that begins a sentence at `position`: `position` itself at the
/// beginning of the text, otherwise after a full stop and spaces.
fn capital_at(text: &[u8], position: usize) -> Option<usize> {
    let is_capital = |at: &usize| text.get(*at).is_some_and(u8::is_ascii_uppercase);
    if position == 0 && is_capital(&0) {
        return Some(0);
    }
    if text.get(position) != Some(&b'.') {
        return None;
    }
    let spaces = text
        .iter()
        .skip(position + 1)
        .take_while(|byte| **byte == b' ')
        .count();
    Some(position + 1 + spaces).filter(|at| spaces > 0 && is_capital(at))
}
