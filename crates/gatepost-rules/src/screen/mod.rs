//! Which patterns can match at all: one pass over a text for what they cannot match without.
//!
//! Nearly every pattern has a part that is rare in mail: a word, a word spelled with look-alikes,
//! a row of digits. [`required`] chooses such a fragment for each pattern, or one for each of its
//! alternatives. The fragments of all patterns that look at the same kind of text become one
//! nondeterministic automaton ([`positions`]), which is made deterministic state by state as texts
//! lead there ([`automaton`]). A pattern runs only where a fragment of it ended, and where the
//! fragment stands at a known distance from the start of a match, only there.
//!
//! Invariant: where a pattern matches, a fragment of it ends within the match, and a match (that one,
//! or one that lacks optional parts at its front) begins within the fragment's window. Fragments may
//! end where nothing matches; that costs time only.

mod automaton;
mod beginnings;
mod frequency;
mod openings;
mod positions;
mod required;
mod run;
mod sample;
mod weight;
mod widen;

pub(crate) use automaton::{Automaton, End, Visitor};
pub(crate) use beginnings::{Beginnings, BeginningsReader};
pub(crate) use frequency::chance;
pub(crate) use openings::Openings;
pub(crate) use positions::{Builder, Owner};
pub(crate) use required::{Fragment, Window, required};
pub(crate) use run::{Run, rare_run, required_run};
pub(crate) use sample::PAGE;
pub(crate) use widen::widen;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use proptest::prelude::*;

    /// Each owner with the end of its fragment.
    #[derive(Default)]
    struct All(Vec<(Owner, usize)>);

    impl Visitor for All {
        fn ended(&mut self, owner: Owner, end: usize) {
            self.0.push((owner, end));
        }

        fn goes_on(&mut self) -> bool {
            true
        }
    }

    fn screen(patterns: &[&str]) -> Automaton {
        let mut builder = Builder::new();
        for (index, pattern) in (0u32..).zip(patterns) {
            let tree = widen(Pattern::parse(pattern.as_bytes()).unwrap().take_tree());
            for fragment in required(&tree, 6.0, 0.9).expect(pattern) {
                builder.add(index, &fragment);
            }
        }
        Automaton::new(builder)
    }

    fn found(automaton: &Automaton, text: &[u8]) -> Vec<(Owner, usize)> {
        let mut all = All::default();
        automaton.search(text, &mut all).unwrap();
        all.0
    }

    /// Where a pattern matches, a fragment ends inside and the match begins within its window.
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
            let automaton = screen(&[pattern]);
            let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
            let ends = found(&automaton, text);
            let mut start = 0;
            let mut matches = 0;
            while let Some((from, to)) = pattern.find(text, start, |_| true).unwrap() {
                let fits = |(owner, end): &(Owner, usize)| {
                    let begins = owner.window.is_none_or(|window| {
                        let first = end.saturating_sub(window.max as usize);
                        let places = first..=end - window.min as usize;
                        pattern.begins_at(text, places, |_| true).unwrap().0
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

    /// Each match of a pattern of rounds holds so many ends of its fragments.
    #[test]
    fn rounds_are_counted() {
        let automaton = screen(&[r"/(?:\d\. ?(?:your )?(?:name|phone):[ ._]{1,40}){3}/"]);
        let text = b"x 1.your name: 2. phone:..3.name:_ phone:";
        let ends = found(&automaton, text);
        let inside = ends
            .iter()
            .filter(|(owner, end)| owner.rounds == 3 && *end <= 34);
        assert!(inside.count() >= 3, "{ends:?}");
    }

    #[test]
    fn patterns_without_a_rare_part_are_not_screened() {
        for pattern in [
            "/e/",
            "/^/",
            "/[a-z]{5}/i",
            "/viagra|[a-z]/",
            "/.{200}/",
            r"/(\w+) \1/",
        ] {
            let tree = widen(Pattern::parse(pattern.as_bytes()).unwrap().take_tree());
            assert!(required(&tree, 6.0, 0.9).is_none(), "{pattern}");
        }
    }

    #[test]
    fn fragments_are_told_in_order_of_their_ends() {
        let automaton = screen(&["/viagra/", "/agra/", "/^xx v/"]);
        let all = found(&automaton, b"xx viagra");
        let all: Vec<_> = all
            .iter()
            .map(|(owner, end)| (owner.pattern, *end))
            .collect();
        assert_eq!(all, [(2, 4), (0, 9), (1, 9)]);
        assert!(found(&automaton, b"yxx v").is_empty());
    }

    /// What is told of texts that are read together, as [`found`] tells it; `None` where they are not.
    fn found_together(automaton: &Automaton, texts: &[&[u8]]) -> Option<Vec<Vec<(Owner, usize)>>> {
        let ends = automaton.search_together(texts, &mut || true).unwrap()?;
        let mut all = vec![Vec::new(); texts.len()];
        for end in &ends {
            all[end.text as usize].push((end.owner, end.place as usize));
        }
        assert!(ends.is_sorted_by_key(|end| (end.text, end.place)));
        Some(all)
    }

    proptest! {
        /// Pieces, their joints and the order of what they find show nowhere.
        #[test]
        fn texts_read_together_are_found_to_hold_the_same(
            texts in prop::collection::vec("[ab x1]{0,400}", 1..6),
            times in 1..8_usize,
        ) {
            let automaton = screen(&[
                "/aab/", "/b[ab]{6}x/", "/x1+x/", "/^a ?b1/", "/1 {3,40}b/", "/ab1|ba1|xx1/", "/x[ab]*1/",
            ]);
            let texts: Vec<String> = texts.iter().map(|text| text.repeat(times)).collect();
            let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let expected: Vec<_> = texts.iter().map(|text| found(&automaton, text)).collect();
            // The table may have to grow for what pieces begin with.
            let together = (0..8).find_map(|_| found_together(&automaton, &texts));
            let count: usize = expected.iter().map(Vec::len).sum();
            prop_assert_eq!(together.is_some(), count <= 4096);
            if let Some(together) = together {
                prop_assert_eq!(together, expected);
            }
        }
    }

    #[test]
    fn starts_of_texts_are_found_together() {
        let automaton = screen(&["/^aab/", "/^ab|^b/"]);
        let texts: [&[u8]; 4] = [b"aab aab", b"", b"xaab", b"ba"];
        let expected: Vec<_> = texts.iter().map(|text| found(&automaton, text)).collect();
        assert_eq!(
            expected.iter().map(Vec::len).collect::<Vec<_>>(),
            [1, 0, 0, 1]
        );
        assert_eq!(found_together(&automaton, &texts), Some(expected));
    }

    #[test]
    fn texts_are_read_one_by_one_where_reading_together_does_not_do() {
        // The table grows on the way.
        let automaton = screen(&["/b[ab]{12}x/", "/aab/"]);
        let mut random = 1u64;
        let text = std::iter::repeat_with(|| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            b"ab"[(random >> 63) as usize]
        });
        let text: Vec<u8> = text.take(2_000).collect();
        assert_eq!(found_together(&automaton, &[&text]), None);
        // The ends are too many.
        let automaton = screen(&["/aab/"]);
        let many = b"aab".repeat(5_000);
        assert_eq!(found(&automaton, &many).len(), 5_000);
        assert_eq!(found_together(&automaton, &[&many]), None);
        assert_eq!(
            found_together(&automaton, &[&many[..9_000]]).map(|all| all[0].len()),
            Some(3_000)
        );
    }

    /// Beyond its bound the table begins anew; all threads go on with what they had.
    #[test]
    fn a_full_table_begins_anew() {
        let patterns: Vec<String> = (0..400u32)
            .map(|number| {
                format!(
                    "/{:08b}x[0-9a-f]{{6}}/",
                    number.wrapping_mul(2_654_435_761) >> 24
                )
            })
            .collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let automaton = screen(&patterns);
        let mut random = 1u64;
        let mut text = Vec::new();
        for _ in 0..60_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push(b"01x23abf"[(random >> 60) as usize % 8]);
        }
        let one = found(&automaton, &text);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| found(&automaton, &text)))
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), one);
            }
        });
    }
}
