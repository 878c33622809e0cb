//! Searches, compared with Perl's results.

use super::*;

/// Both engines must find the same match, if both accept the pattern.
fn matches(pattern: &str, text: &[u8]) -> bool {
    let parsed = Pattern::parse(pattern.as_bytes()).unwrap();
    let found = parsed.find(text, 0, |_| true).unwrap();
    if let Some(linear) = parsed.linear() {
        assert_eq!(linear.find(text, 0), found, "{pattern}");
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
        (r"/()()()()()()()()()(a)\10b/", b"aab", true),
        (r"/()()()()()()()()()\10(a)/", b"\x08a", true),
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

/// A search with many steps at many offsets asks whether to continue at each of them, and finds the
/// same.
#[test]
fn a_heavy_search_continues_offset_by_offset() {
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
    // The same at given offsets.
    let (begins, tried) = pattern.matches_within(&text, 0..=10, |_| true).unwrap();
    assert_eq!((begins, tried), (false, 11));
    let ended = pattern.matches_within(&text, 0..=10, |_| false);
    assert_eq!(ended, Err(LimitReached::time()));
}

#[test]
fn offsets_with_other_prefixes_are_not_matched() {
    let pattern = Pattern::parse(br"/(?:^|\s)v[i1]a|x?z/").unwrap();
    let begins = |text: &[u8]| {
        pattern
            .matches_within(text, 0..=text.len(), |_| true)
            .unwrap()
    };
    assert_eq!(begins(b"abcd vxa "), (false, 0));
    assert_eq!(begins(b"abcd v1a"), (true, 1));
    // A match that may be empty can start anywhere.
    let pattern = Pattern::parse(br"/(?=b)a?/").unwrap();
    assert_eq!(
        pattern.matches_within(b"aab", 0..=3, |_| true),
        Ok((true, 3))
    );
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
fn a_long_search_asks_whether_to_continue() {
    let pattern = Pattern::parse(br"/(?<!x)y/").unwrap();
    let text = vec![b'x'; SLICE_BYTES * 3];
    assert!(pattern.find(&text, 0, |_| false).is_err());
}

/// `replace_tag` makes such patterns: the same spellings of a letter hundreds of times.
#[test]
fn a_pattern_too_large_for_pcre2_uses_subroutines() {
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

/// PCRE2 refuses such patterns without subroutines.
#[test]
fn large_patterns_are_printed_with_calls() {
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

/// Cases for the installed Perl: a pattern, a tab, and a text with escapes.
#[test]
fn patterns_beyond_the_parser_match_as_in_perl() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let cases = std::fs::read_to_string(format!("{folder}/perl_patterns.txt"))
        .expect("the cases are readable");
    let program = r#"while (<STDIN>) { chomp; my ($p, $t) = split /\t/; $t = eval qq{"$t"};
        print eval("\$t =~ ${p}aa ? \$-[0] . ' ' . \$+[0] : 'none'") // "error: $@", "\n" }"#;
    let mut perl = std::process::Command::new("perl")
        .args(["-e", program])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("perl is installed");
    let mut input = perl.stdin.take().expect("its input is a pipe");
    std::io::Write::write_all(&mut input, cases.as_bytes()).expect("perl reads the cases");
    drop(input);
    let output = perl.wait_with_output().expect("perl ends");
    let answers = String::from_utf8(output.stdout).expect("perl answers in ASCII");
    assert_eq!(answers.lines().count(), cases.lines().count());
    for (case, expected) in cases.lines().zip(answers.lines()) {
        let (pattern, text) = case.split_once('\t').expect(case);
        let text = text.replace("\\n", "\n");
        let parsed = Pattern::parse(pattern.as_bytes()).expect(case);
        let found = parsed.find(text.as_bytes(), 0, |_| true).expect(case);
        let found = found.map_or("none".to_owned(), |(start, end)| format!("{start} {end}"));
        assert_eq!(found, expected, "{case}");
        let within = parsed.matches_within(text.as_bytes(), 0..=text.len(), |_| true);
        assert_eq!(
            within.map(|(matches, _)| matches),
            Ok(expected != "none"),
            "{case}"
        );
    }
}

#[test]
fn patterns_that_pcre2_refuses_are_refused_when_read() {
    for pattern in [
        "/(?<=a*)b/",
        "/(?(DEFINE)a/",
        r"/\b{wb}a/",
        "/(*NOTHING)a/",
        "/(?2)a/",
    ] {
        assert!(Pattern::parse(pattern.as_bytes()).is_err(), "{pattern}");
    }
}
