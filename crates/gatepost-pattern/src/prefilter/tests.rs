//! Literals are found wherever patterns match, by each search method.

use super::required::required_literals;
use crate::automaton::{LazyDfa, LiteralInfo, LiteralVisitor, NfaBuilder};
use crate::pattern::Pattern;
use crate::syntax::{parse_delimited, widen};

/// Each literal with its end.
#[derive(Default)]
struct All(Vec<(LiteralInfo, usize)>);

impl LiteralVisitor for All {
    fn literal_matched(&mut self, literal: LiteralInfo, end: usize) {
        self.0.push((literal, end));
    }

    fn keep_going(&mut self) -> bool {
        true
    }
}

fn dfa_of(patterns: &[&str]) -> LazyDfa {
    let mut builder = NfaBuilder::new();
    for (index, pattern) in (0u32..).zip(patterns) {
        let tree = widen(parse_delimited(pattern));
        for literal in required_literals(&tree, 6.0, 0.9).expect(pattern) {
            builder.add(&literal.parts, literal.is_anchored, literal.info(index));
        }
    }
    LazyDfa::new(builder)
}

fn found(dfa: &LazyDfa, text: &[u8]) -> Vec<(LiteralInfo, usize)> {
    let mut all = All::default();
    dfa.search(text, &mut all).unwrap();
    all.0
}

/// Each match contains a literal, and starts within its window.
#[test]
fn no_match_is_missed() {
    for (pattern, text) in [
        ("/viagra/i", &b"buy ViAgRa now"[..]),
        ("/v[i1]agra/i", b"v1agra"),
        ("/(?:cheap|free).{0,9}meds/", b"so free of meds"),
        ("/lottery|winner/", b"a winner"),
        ("/colou?red/i", b"colored coloured"),
        ("/^(?!no).*unsubscribe$/", b"to unsubscribe"),
        ("/(ab){3}x*/", b"xxabababx"),
        (
            "/(?:ab|c){20}d/",
            b"ababababababababababababababababababababd",
        ),
        ("/^foo|bar{3}/", b"foo barrr"),
        ("/^(?:x|y)\\d\\d/", b"y12"),
        ("/(?=p)(?!pay)[p\\xc3][a@]y\\s*pal/i", b"p@Y  \n PAL"),
        ("/q(?>u+)ick|(?|(z)x|(y)z)\\1/", b"quick zxz"),
        ("/[A-Z]{5}\\d+/", b"ABCDE12"),
        (
            "/\\bv[_\\W]{0,3}[i1l][_\\W]{0,3}[a@]g/i",
            b"!v__1 .A_g v-i-@g",
        ),
        ("/money\\s+(?:back|now)/", b"money  \t now money back"),
        ("/a{0}viagra/", b"viagra"),
        ("/^\\s*[d-g]/", b"  free"),
        ("/(?:x|)(?:y|)quick/", b"quick"),
        (
            "/(?:(?:your ){0,9}[a-z]{0,30})?(?:(?:x|q)?name|(?:z|k){0,9}sex):/",
            b"your your aname:",
        ),
        ("/\\b(?:your )?name/", b"rename your name"),
        ("/(?:a?quick){3}/", b"quickaquickquick"),
        ("/(?:x{2,}y)+z[0-9]{2,3}/", b"xxyxxxyz12"),
    ] {
        let pattern_text = pattern;
        let dfa = dfa_of(&[pattern]);
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let ends = found(&dfa, text);
        let mut start = 0;
        let mut matches = 0;
        while let Some((from, to)) = pattern.find(text, start, |_| true).unwrap() {
            let fits = |(literal, end): &(LiteralInfo, usize)| {
                let begins = literal.window.is_none_or(|window| {
                    let first = end.saturating_sub(window.max as usize);
                    let offsets = first..=end - window.min as usize;
                    pattern.matches_within(text, offsets, |_| true).unwrap().0
                });
                (from + 1..=to).contains(end) && begins
            };
            assert!(ends.iter().any(fits), "{pattern_text} at {from}: {ends:?}");
            start = to;
            matches += 1;
        }
        assert!(matches > 0, "{pattern_text}");
    }
}

/// Each match of a repeated pattern contains as many literals as it has rounds.
#[test]
fn rounds_are_counted() {
    let dfa = dfa_of(&[r"/(?:\d\. ?(?:your )?(?:name|phone):[ ._]{1,40}){3}/"]);
    let text = b"x 1.your name: 2. phone:..3.name:_ phone:";
    let ends = found(&dfa, text);
    let inside = ends
        .iter()
        .filter(|(literal, end)| literal.rounds == 3 && *end <= 34);
    assert!(inside.count() >= 3, "{ends:?}");
}

#[test]
fn patterns_without_a_rare_part_have_no_literal() {
    for pattern in [
        "/e/",
        "/^/",
        "/[a-z]{5}/i",
        "/viagra|[a-z]/",
        "/.{200}/",
        r"/(\w+) \1/",
    ] {
        let tree = widen(parse_delimited(pattern));
        assert!(required_literals(&tree, 6.0, 0.9).is_none(), "{pattern}");
    }
}

#[test]
fn literals_are_reported_in_the_order_of_their_ends() {
    let dfa = dfa_of(&["/viagra/", "/agra/", "/^xx v/"]);
    let all = found(&dfa, b"xx viagra");
    let all: Vec<_> = all
        .iter()
        .map(|(literal, end)| (literal.pattern, *end))
        .collect();
    assert_eq!(all, [(2, 4), (0, 9), (1, 9)]);
    assert!(found(&dfa, b"yxx v").is_empty());
}

/// A full table is replaced by an empty one; each thread finishes with the one it holds.
#[test]
fn a_full_table_is_started_again() {
    let patterns: Vec<String> = (0..400u32)
        .map(|number| {
            format!(
                "/{:08b}x[0-9a-f]{{6}}/",
                number.wrapping_mul(2_654_435_761) >> 24
            )
        })
        .collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let dfa = dfa_of(&patterns);
    let mut random = 1u64;
    let mut text = Vec::new();
    for _ in 0..60_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        text.push(b"01x23abf"[(random >> 60) as usize % 8]);
    }
    let one = found(&dfa, &text);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| found(&dfa, &text))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), one);
        }
    });
}
