//! The tokenizer: divides a line into words.
//!
//! The words are those of SpamAssassin, peculiarities included: databases can be exchanged only if
//! both programs produce the same tokens from the same text. The differences between parts of a
//! message are in the [`Region`].

mod prepare;

use super::settings::BayesSettings;
use super::token::Collector;
use prepare::{keep_word_bytes, lower_title_case, set_apart};

/// The part of a message that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// A header field: words are kept whole.
    Field,
    /// The rendered text: words are also kept in simplified forms, so `Hot!!!` also trains `hot`.
    Body,
    /// A link: as in the body, and long words are kept whole.
    Link,
}

/// The shortest word that is a token.
const WORD_BYTES_MIN: usize = 3;

/// The longest host that is divided into domains, in bytes: RFC 1035, section 3.1, as text. It has
/// at most 127 labels. The domains of a longer text would be many times its size.
const HOST_BYTES_MAX: usize = 253;

/// The number of characters kept of a long word.
const KEPT_CHARACTERS: usize = 7;

/// Adds the tokens of one line. `prefix` distinguishes tokens of one part from the same word
/// elsewhere.
pub(super) fn add_line(
    line: &[u8],
    prefix: &[u8],
    region: Region,
    settings: &BayesSettings,
    tokens: &mut Collector,
) {
    let mut text = keep_word_bytes(line);
    text = set_apart(&text, b'.', 3);
    text = set_apart(&text, b'-', 2);
    if region != Region::Field {
        text = lower_title_case(&text);
    }
    for word in text.split(|byte| *byte == b' ') {
        let word = trim_punctuation(word);
        if word.len() >= WORD_BYTES_MIN && !settings.is_stop_word(word) {
            add_word(word, prefix, region, settings.token_bytes_max, tokens);
        }
    }
}

fn add_word(
    word: &[u8],
    prefix: &[u8],
    region: Region,
    token_bytes_max: usize,
    tokens: &mut Collector,
) {
    if region != Region::Field {
        if has_inner(word, |_, at, _| at == b'@') {
            mail_address(word, |piece| tokens.add(piece));
        } else if has_inner(word, |_, at, after| {
            at == b'.' && after.is_ascii_alphabetic()
        }) {
            domains(word, b"UD:", |piece| tokens.add(piece));
        }
    }
    // A `*` denotes tokens that were derived from a larger one, which are kept whole.
    if word.len() > token_bytes_max && !word.contains(&b'*') {
        let mut characters = wide_characters(word).peekable();
        if characters.peek().is_some() {
            for character in characters {
                tokens.add(&[prefix, b"u8:", character]);
            }
            return;
        }
        if region != Region::Link
            && let Some(beginning) = beginning_of_long(word)
        {
            add_forms(&[b"sk:", beginning].concat(), prefix, region, tokens);
            return;
        }
    }
    add_forms(word, prefix, region, tokens);
}

/// Adds the word and, in text, its simpler forms: without punctuation, in lower case, both.
fn add_forms(word: &[u8], prefix: &[u8], region: Region, tokens: &mut Collector) {
    if region != Region::Field {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'*');
        let is_plain = word.iter().all(plain);
        let bare = || -> Vec<u8> { word.iter().copied().filter(|byte| plain(byte)).collect() };
        if !is_plain {
            tokens.add(&[prefix, &bare()]);
        }
        if word.iter().any(u8::is_ascii_uppercase) {
            tokens.add(&[prefix, &word.to_ascii_lowercase()]);
            if !is_plain {
                tokens.add(&[prefix, &bare().to_ascii_lowercase()]);
            }
        }
    }
    tokens.add(&[prefix, word]);
}

/// The number of bytes after the first byte of a UTF-8 sequence; 0 if this byte starts none.
fn utf8_following(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 1,
        0xE0..=0xEF => 2,
        0xF0..=0xF4 => 3,
        _ => 0,
    }
}

fn trim_punctuation(mut word: &[u8]) -> &[u8] {
    const TRIMMED: &[u8] = b"-'\".,";
    while let [first, rest @ ..] = word
        && TRIMMED.contains(first)
    {
        word = rest;
    }
    while let [rest @ .., last] = word
        && TRIMMED.contains(last)
    {
        word = rest;
    }
    word
}

/// Whether any three neighbouring bytes fulfil `condition`.
fn has_inner(word: &[u8], condition: impl Fn(u8, u8, u8) -> bool) -> bool {
    word.windows(3).any(|window| match window {
        [before, at, after] => condition(*before, *at, *after),
        _ => false,
    })
}

/// The tokens of a mail address: user, host, and the domains above the host.
pub(super) fn mail_address(address: &[u8], mut add: impl FnMut(&[&[u8]])) {
    // The last `@` with text on both sides.
    let Some(at) = address
        .iter()
        .enumerate()
        .rev()
        .find(|(index, byte)| **byte == b'@' && *index + 1 < address.len())
        .map(|(index, _)| index)
        .filter(|at| *at > 0)
    else {
        return;
    };
    let (user, host) = address.split_at(at);
    add(&[b"U*", user]);
    domains(host.get(1..).unwrap_or_default(), b"D*", add);
}

/// A host and each domain above it; of a text that is too long for a host only the whole.
fn domains(host: &[u8], mark: &[u8], mut add: impl FnMut(&[&[u8]])) {
    add(&[mark, host]);
    if host.len() > HOST_BYTES_MAX {
        return;
    }
    let mut rest = host;
    while let Some(dot) = rest.iter().position(|byte| *byte == b'.')
        && dot > 0
        && let Some(above) = rest.get(dot + 1..)
        && !above.is_empty()
    {
        add(&[mark, above]);
        rest = above;
    }
}

/// The UTF-8 sequences of three and four bytes in a word; in languages without spaces these
/// approximate words.
fn wide_characters(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = word;
    std::iter::from_fn(move || {
        while let Some((&first, after)) = rest.split_first() {
            let following = utf8_following(first);
            let sequence = rest.get(..=following).filter(|sequence| {
                following >= 2
                    && sequence
                        .iter()
                        .skip(1)
                        .all(|byte| matches!(byte, 0x80..=0xBF))
            });
            if let Some(sequence) = sequence {
                rest = rest.get(following + 1..).unwrap_or_default();
                return Some(sequence);
            }
            rest = after;
        }
        None
    })
}

/// The first characters of a long word, if at least two bytes follow them.
fn beginning_of_long(word: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for _ in 0..KEPT_CHARACTERS {
        let following = utf8_following(*word.get(end)?);
        let is_sequence = word
            .get(end + 1..end + 1 + following)
            .is_some_and(|tail| tail.iter().all(|byte| matches!(byte, 0x80..=0xBF)));
        end += if is_sequence { following + 1 } else { 1 };
    }
    if word.len() < end + 2 {
        return None;
    }
    word.get(..end)
}

#[cfg(test)]
mod tests {
    use super::super::token::Token;
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(line: &str, region: Region, expected: &[&str]) {
        let mut collector = Collector::default();
        add_line(
            line.as_bytes(),
            b"",
            region,
            &BayesSettings::default(),
            &mut collector,
        );
        let mut wanted: Vec<Token> = expected
            .iter()
            .map(|text| Token::of(&[text.as_bytes()]))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(collector.finish(), wanted, "{line}");
    }

    #[test]
    fn words_of_a_field_are_kept_whole() {
        check("Hello World!", Region::Field, &["Hello", "World!"]);
        check("\"quoted\" -- 'it' no", Region::Field, &["quoted"]);
        check("and THE not-you", Region::Field, &["not-you"]);
    }

    #[test]
    fn words_of_the_text_come_in_simpler_forms_too() {
        check(
            "cheap DRUGS! now",
            Region::Body,
            &["cheap", "DRUGS!", "DRUGS", "drugs!", "drugs"],
        );
        // The first word of a sentence becomes lower case; a name keeps its case.
        check("Meet Anna", Region::Body, &["meet", "Anna", "anna"]);
        check("wait...what", Region::Body, &["wait", "what"]);
    }

    #[test]
    fn addresses_and_hosts_are_taken_apart() {
        check(
            "joe@mail.example.org",
            Region::Body,
            &[
                "U*joe",
                "D*mail.example.org",
                "D*example.org",
                "D*org",
                "sk:joe@mai",
                "sk:joemai",
            ],
        );
        check(
            "www.example.org",
            Region::Link,
            &[
                "UD:www.example.org",
                "UD:example.org",
                "UD:org",
                "wwwexampleorg",
                "www.example.org",
            ],
        );
    }

    #[test]
    fn only_a_host_of_valid_length_is_divided() {
        let domains_of = |host: &str| {
            let mut count = 0;
            domains(host.as_bytes(), b"D*", |_| count += 1);
            count
        };
        assert_eq!(domains_of(&["a"; 127].join(".")), 127);
        assert_eq!(domains_of(&["a"; 128].join(".")), 1);
        assert_eq!(domains_of(&format!("{}.org", "a".repeat(250))), 1);
    }

    #[test]
    fn long_words_are_cut_and_wide_characters_stand_alone() {
        check("abcdefghijklmnop", Region::Field, &["sk:abcdefg"]);
        check("abcdefghijklmno", Region::Field, &["abcdefghijklmno"]);
        check(
            "漢字漢字漢語語語",
            Region::Body,
            &["u8:漢", "u8:字", "u8:語"],
        );
        check("äöüäöüäöüäöü", Region::Field, &["sk:äöüäöüä"]);
    }

    proptest! {
        #[test]
        fn any_bytes_give_bounded_tokens(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            for region in [Region::Field, Region::Body, Region::Link] {
                let mut collector = Collector::default();
                add_line(&line, b"p:", region, &BayesSettings::default(), &mut collector);
                prop_assert!(collector.len() <= 4 * line.len() + 4);
            }
        }
    }
}
