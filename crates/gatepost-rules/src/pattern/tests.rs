//! Patterns searched as rules search them, checked against what Perl finds.

use super::*;

/// Both engines must give the same, where both take the pattern.
fn matches(pattern: &str, text: &[u8]) -> bool {
    let parsed = Pattern::parse(pattern.as_bytes()).unwrap();
    let found = parsed.find(text, 0, |_| true).unwrap();
    if let Some(automaton) = parsed.automaton() {
        assert_eq!(automaton.find(text, 0), found, "{pattern}");
    }
    found.is_some()
}

/// Checked against Perl: `$text =~ qr/$pattern/aa`.
#[test]
fn both_engines_answer_as_perl_does() {
    for (pattern, text, expected) in [
        (r"/^\s*$/", &b"\n"[..], true),
        (r"/a$/", b"a\n", true),
        (r"/a$/", b"a\n\n", false),
        (r"/a$b?/", b"a\n", true),
        (r"/a\z/", b"a\n", false),
        (r"/a\n^$/m", b"a\n", false),
        (r"/^b/m", b"a\nb", true),
        (r"/^b/", b"a\nb", false),
        (r"/a.b/", b"a\nb", false),
        (r"/a.b/s", b"a\nb", true),
        (r"/\xe9/i", b"\xc9", true),
        (r"/[\xc3][\x80]/i", b"\xe3\x80", true),
        (r"/\w/", b"\xe9", false),
        (r"/\W/", b"\xe9", true),
        (r"/caf\b/", b"caf\xc3\xa9", true),
        (r"/x{2,3}y/", b"xxy", true),
        (r"/x{,3}y/", b"y", true),
        (r"/x{a}/", b"x{a}", true),
        (r"/a b # c/x", b"ab", true),
        (r"/(?i:A)b/", b"ab", true),
        (r"/(?i:A)b/", b"aB", false),
        (r"/a(?i)b|c/", b"C", true),
        (r"/(a)\1/", b"aa", true),
        (r"/(A)\1/i", b"aA", true),
        (r"/(?<!x)a/", b"xa", false),
        (r"/(?!b)[ab]/", b"b", false),
        (r"/(?>a+)a/", b"aaa", false),
        (r"/a++a/", b"aaa", false),
        (r"/[[:alpha:]_-]+-]/", b"a-]", true),
        (r"/[^[:^alpha:]]/", b"1", false),
        (r"/[\]]/", b"]", true),
        (r"/[]a]/", b"]", true),
        (r"/\x{263a}|a/", b"a", true),
        (r"/\Aab\Z/", b"ab\n", true),
        (r"/\R\z/", b"\r\n", true),
        (r"/(?|(a)|(b))\1/", b"bb", true),
        (r"/(?<n>a)\k<n>/", b"aa", true),
        (r"/^(?:(a)|b)(?(1)c|d)$/", b"bd", true),
        (r"/a{0}b/", b"b", true),
        (r"/\//", b"/", true),
        (r"m{^http://}i", b"HTTP://", true),
        (r"/\000/", b"\0", true),
        (r"/\101/", b"A", true),
        (r"/[\101-\x43]/", b"B", true),
        (r"/$/", b"", true),
        (r"/|/", b"", true),
        (r"/(?:cheap|free)[a-z]{0,9}/", b"free", true),
        (r"/(?:cheap|free)[a-z]{0,9}?\d/", b"free1", true),
        (r"/(?:cheap|free)[a-z]{0,9}+x/", b"freex", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern}");
    }
}

#[test]
fn broken_patterns_are_refused_with_a_reason() {
    for pattern in [
        "/(/",
        "/)/",
        "/[/",
        "/a**/",
        "/*/",
        "/a{3,2}/",
        "/(?<1>a)/",
        r"/\1/",
        "/(?z)/",
        r"/\p{L}/",
        "/[b-a]/",
        r"/\y/",
        "/[[:nothing:]]/",
    ] {
        assert!(Pattern::parse(pattern.as_bytes()).is_err(), "{pattern}");
    }
    let deep = format!("/{}{}/", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Pattern::parse(deep.as_bytes()).is_err());
}

#[test]
fn a_catastrophic_pattern_gives_up() {
    let pattern = Pattern::parse(br"/^(?=(?:a|aa)+$)/").unwrap();
    let text = [&[b'a'; 5000][..], b"!"].concat();
    assert!(pattern.find(&text, 0, |_| true).is_err());
}

/// A search that takes many steps at many places asks for the time at each of them, and finds what
/// it would have found at once.
#[test]
fn a_heavy_search_goes_on_place_by_place() {
    let pattern = Pattern::parse(br"/(?:a|aa)+!!|zz/").unwrap();
    let heavy = [&[b'a'; 23][..], b"! "].concat().repeat(200);
    let text = [&heavy[..], b"zz"].concat();
    let mut questions = 0;
    let count = |_: usize| {
        questions += 1;
        true
    };
    let found = pattern.find(&text, 0, count).unwrap();
    assert_eq!(found, Some((text.len() - 2, text.len())));
    assert!(questions > text.len(), "{questions}");
    let mut left = 100;
    let ends = |_: usize| {
        left -= 1;
        left > 0
    };
    assert_eq!(pattern.find(&text, 0, ends), Err(LimitReached::time()));
    assert_eq!(left, 0);
    // The same at places that are asked for.
    let (begins, tried) = pattern.begins_at(&text, 0..=10, |_| true).unwrap();
    assert_eq!((begins, tried), (false, 11));
    let ended = pattern.begins_at(&text, 0..=10, |_| false);
    assert_eq!(ended, Err(LimitReached::time()));
}

#[test]
fn places_that_begin_otherwise_are_not_tried() {
    let pattern = Pattern::parse(br"/(?:^|\s)v[i1]a|x?z/").unwrap();
    let begins = |text: &[u8]| pattern.begins_at(text, 0..=text.len(), |_| true).unwrap();
    assert_eq!(begins(b"abcd vxa "), (false, 0));
    assert_eq!(begins(b"abcd v1a"), (true, 1));
    // What may be empty begins anywhere.
    let pattern = Pattern::parse(br"/(?=b)a?/").unwrap();
    assert_eq!(pattern.begins_at(b"aab", 0..=3, |_| true), Ok((true, 3)));
}

#[test]
fn long_texts_are_searched_like_short_ones() {
    let filler = vec![b'x'; SLICE_BYTES * 5 / 2];
    for (pattern, tail, expected) in [
        ("/x+y$/", &b"y"[..], true),
        (r"/(?<=x)(y)\1/", b"yyx", true),
        (r"/(?<!x)y/", b"y", false),
        (r"/y(?!z)/", b"yz", false),
    ] {
        let text = [&filler[..], tail].concat();
        assert_eq!(matches(pattern, &text), expected, "{pattern}");
    }
}

#[test]
fn a_long_search_asks_for_the_time() {
    let pattern = Pattern::parse(br"/(?<!x)y/").unwrap();
    let text = vec![b'x'; SLICE_BYTES * 3];
    assert!(pattern.find(&text, 0, |_| false).is_err());
}

/// `replace_tag` makes such patterns: hundreds of times the same spellings of a letter.
#[test]
fn a_pattern_too_large_for_pcre2_shares_what_it_repeats() {
    let mut word = String::new();
    for letter in "password".chars() {
        word.push_str("(?:");
        word.push(letter);
        for digit in '0'..='9' {
            word.push_str("|\\xc3[\\x81-\\x95");
            word.push(digit);
            word.push_str("]|");
            word.extend([letter, digit]);
        }
        word.push(')');
    }
    let text = format!("/(?<!x)(?:{word}[ ,]?){{3,60}}(end|stop)\\1$/i");
    let pattern = Pattern::parse(text.as_bytes()).unwrap();
    assert_eq!(pattern.compile(), Ok(()));
    let find = |text: &str| pattern.find(text.as_bytes(), 0, |_| true).unwrap();
    assert_eq!(find("PaSs3WORD4password,passWordendend"), Some((0, 33)));
    assert_eq!(find("passwordpassword endend"), None);
    assert_eq!(find("passwordpasswordpasswordendstop"), None);
}

/// Compiled at once such patterns are beyond what PCRE2 takes.
#[test]
fn large_patterns_are_written_with_calls() {
    let word = "(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa)";
    let text = format!("/^(?:(?:{word}-){{1,40}}{word}[.,]){{3,40}}$/");
    let pattern = Pattern::parse(text.as_bytes()).unwrap();
    assert_eq!(pattern.compile(), Ok(()));
    for (text, expected) in [
        ("alpha-beta.gamma-eta,theta-iota-kappa.", true),
        ("alpha-beta.gamma-eta,theta.", false),
    ] {
        let found = pattern.find(text.as_bytes(), 0, |_| true).unwrap();
        assert_eq!(found.is_some(), expected, "{text}");
    }
}
