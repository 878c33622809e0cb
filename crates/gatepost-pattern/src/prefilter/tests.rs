//! Literals are found wherever patterns match.

use super::required::required_literals;
use crate::automaton::{LiteralInfo, LiteralSearch, LiteralVisitor, NfaBuilder};
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

fn search_of(patterns: &[&str]) -> LiteralSearch {
    let mut builder = NfaBuilder::new();
    for (index, pattern) in (0u32..).zip(patterns) {
        let tree = widen(parse_delimited(pattern));
        for literal in required_literals(&tree, 6.0, 0.9).expect(pattern) {
            builder.add(&literal.parts, literal.is_anchored, literal.info(index));
        }
    }
    LiteralSearch::new(&builder)
}

fn found(search: &LiteralSearch, text: &[u8]) -> Vec<(LiteralInfo, usize)> {
    let mut all = All::default();
    search.search(text, &mut all).unwrap();
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
        let search = search_of(&[pattern]);
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let ends = found(&search, text);
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
    let search = search_of(&[r"/(?:\d\. ?(?:your )?(?:name|phone):[ ._]{1,40}){3}/"]);
    let text = b"x 1.your name: 2. phone:..3.name:_ phone:";
    let ends = found(&search, text);
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
    let search = search_of(&["/viagra/", "/agra/", "/^xx v/"]);
    let all = found(&search, b"xx viagra");
    let all: Vec<_> = all
        .iter()
        .map(|(literal, end)| (literal.pattern, *end))
        .collect();
    assert_eq!(all, [(2, 4), (0, 9), (1, 9)]);
    assert!(found(&search, b"yxx v").is_empty());
}
