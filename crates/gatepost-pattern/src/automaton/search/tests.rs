//! The search compared with a simulation of the NFA byte by byte.

use super::*;
use crate::automaton::literal::LiteralInfo;
use crate::syntax::parse_delimited;

/// The found literals with their ends; at most `questions` questions are answered with yes.
struct Found {
    literals: Vec<(u32, usize)>,
    questions: usize,
}

impl LiteralVisitor for Found {
    fn literal_matched(&mut self, literal: LiteralInfo, end: usize) {
        self.literals.push((literal.pattern, end));
    }

    fn keep_going(&mut self) -> bool {
        self.questions = self.questions.saturating_sub(1);
        self.questions > 0
    }
}

/// A builder with the literals of patterns, those that begin with `^` at the start of a text.
fn builder_of(patterns: &[impl AsRef<str>]) -> NfaBuilder {
    let mut builder = NfaBuilder::new();
    for (pattern, source) in (0u32..).zip(patterns) {
        let source = source.as_ref();
        let (is_anchored, literal) = match source.strip_prefix('^') {
            Some(literal) => (true, literal),
            None => (false, source),
        };
        let tree = parse_delimited(&format!("/{literal}/"));
        let info = LiteralInfo {
            pattern,
            window: None,
            rounds: 1,
        };
        builder.add(&[&tree], is_anchored, info);
    }
    builder
}

fn found(search: &LiteralSearch, text: &[u8]) -> Vec<(u32, usize)> {
    let mut found = Found {
        literals: Vec::new(),
        questions: usize::MAX,
    };
    search.search(text, &mut found).expect("not stopped");
    let in_order = found.literals.is_sorted_by_key(|&(_, end)| end);
    assert!(in_order, "{:?}", found.literals);
    found.literals.sort_unstable();
    found.literals.dedup();
    found.literals
}

/// The literals in a text by the byte sets of the NFA.
fn simulated(builder: &NfaBuilder, text: &[u8]) -> Vec<(u32, usize)> {
    let mut found = Vec::new();
    let mut active = vec![ANCHORED_START];
    for (offset, &byte) in text.iter().enumerate() {
        active.push(UNANCHORED_START);
        let mut next = Vec::new();
        for position in active {
            for &follower in &builder.positions()[position as usize].1 {
                let (set, _, literals) = &builder.positions()[follower as usize];
                if builder.sets()[usize::from(*set)].contains(byte) {
                    next.push(follower);
                    found.extend(literals.iter().map(|literal| (literal.pattern, offset + 1)));
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        active = next;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005) | 1;
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of<'i, T: ?Sized>(&mut self, items: &[&'i T]) -> &'i T {
        items[self.below(items.len())]
    }

    fn pattern(&mut self) -> String {
        const PARTS: &[&str] = &[
            "a", "b", "c", "[ab]", "[^a]", "(?:ab|c)", "b?", "c{1,3}", "a+", "(?:bc)?", "[a-c]{2}",
            "x",
        ];
        let anchor = self.of(&["", "", "", "^"]);
        let parts: String = (0..=self.below(5)).map(|_| self.of(PARTS)).collect();
        // A literal consumes at least one byte.
        format!("{anchor}{}{parts}", self.of(&["a", "[bc]", "x"]))
    }

    fn text(&mut self, bytes: &[u8]) -> Vec<u8> {
        let length = self.below(60);
        (0..length)
            .map(|_| bytes[self.below(bytes.len())])
            .collect()
    }
}

#[test]
fn all_literals_are_found() {
    let mut random = Random(1);
    let mut literals = 0;
    for _ in 0..400 {
        let patterns: Vec<String> = (0..=random.below(6)).map(|_| random.pattern()).collect();
        let builder = builder_of(&patterns);
        let search = LiteralSearch::new(&builder);
        for _ in 0..20 {
            let text = random.text(b"aabbccx-");
            let expected = simulated(&builder, &text);
            assert_eq!(found(&search, &text), expected, "{patterns:?} in {text:?}");
            literals += expected.len();
        }
    }
    assert!(literals > 10_000, "{literals}");
}

/// Patterns of more byte classes than there are symbols, and of so many grams that shorter ones are
/// used, find more texts, but miss none.
#[test]
fn literals_of_many_classes_are_found() {
    let mut patterns: Vec<String> = (0x30..0xa0)
        .map(|byte| format!("\\x{byte:02x}\\x{:02x}{{2}}q", byte + 1))
        .collect();
    patterns.extend(["\\x40q", "\\x7a", "^\\x41"].map(String::from));
    for few_grams in [true, false] {
        if !few_grams {
            patterns.extend((0x30..0x40).map(|byte| {
                format!(
                    "[^\\x{byte:02x}][^\\x{:02x}][^a]\\x{byte:02x}{{5}}",
                    byte + 1
                )
            }));
        }
        let builder = builder_of(&patterns);
        let search = LiteralSearch::new(&builder);
        assert_eq!(search.grams.length(), if few_grams { 3 } else { 2 });
        let symbols = &search.alphabet.symbol_of;
        assert!(symbols.iter().all(|symbol| (1..64).contains(symbol)));
        let mut random = Random(2);
        let bytes: Vec<u8> = (0x30..0xa0).flat_map(|byte| [byte, b'q']).collect();
        let mut literals = 0;
        for _ in 0..500 {
            let mut text = random.text(&bytes);
            for byte in [0x31, 0x36, 0x90] {
                text.extend([byte - 1, byte, byte, b'q']);
                text.extend(std::iter::repeat_n(byte, 1 + random.below(8)));
            }
            let found = found(&search, &text);
            let expected = simulated(&builder, &text);
            let is_found = |literal: &&(u32, usize)| found.binary_search(literal).is_ok();
            assert_eq!(expected.iter().find(|literal| !is_found(literal)), None);
            literals += expected.len();
        }
        assert!(literals > 1_500, "{literals}");
    }
}

/// A search asks whether to continue. Each position is active once, however many ways lead to it.
#[test]
fn a_search_can_be_stopped() {
    let builder = builder_of(&["a(?:aa?a?){6}x", "a(?:a|aa){6}y"]);
    let search = LiteralSearch::new(&builder);
    let text = b"a".repeat(20_000);
    let mut stopped = Found {
        literals: Vec::new(),
        questions: 100,
    };
    assert_eq!(search.search(&text, &mut stopped), Err(SearchStopped));
    let active_max = text.len() * builder.positions().len();
    let mut finished = Found {
        literals: Vec::new(),
        questions: active_max / POSITIONS_PER_QUESTION,
    };
    assert_eq!(search.search(&text, &mut finished), Ok(()));
}

/// A rare byte before hundreds of optional ones leads to each of them in many ways. The table of
/// its grams stays small, and the classes of other literals are merged beside it.
#[test]
fn many_optional_bytes_take_little_memory() {
    let optional = (0..500).map(|number| format!("[^\\x{:02x}]?", 0x80 + number % 0x80));
    let mut patterns = vec![format!("z{}y", optional.collect::<String>())];
    patterns.extend((0x80..=0xff).map(|byte| format!("\\x{byte:02x}zzz")));
    let builder = builder_of(&patterns);
    let search = LiteralSearch::new(&builder);
    assert_eq!(search.grams.length(), 2);
    let text = [b"\x90zzz -- ".as_slice(), &[b'-'; 400], b"y"].concat();
    let found = found(&search, &text);
    let expected = simulated(&builder, &text);
    assert!(expected.contains(&(0, text.len())));
    assert!(expected.iter().all(|literal| found.contains(literal)));
}
