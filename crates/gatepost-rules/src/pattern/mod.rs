//! Regular expressions as Perl means them.
//!
//! SpamAssassin's rules are written for Perl. Each is read into a tree once ([`parser`]); from
//! the tree come the literals it cannot match without ([`literals`]), and one of two engines:
//! an automaton where it provably finds the same ([`automaton`]), PCRE2 otherwise
//! ([`backtracking`]). Engines are compiled when a rule first needs one: a folder has three
//! thousand patterns, of which a message meets some hundred.

mod automaton;
mod backtracking;
mod byte_set;
mod class;
mod delimited;
mod literals;
mod node;
mod parser;
mod sharing;
mod template;

use std::sync::OnceLock;

pub(crate) use literals::Literals;
use node::Node;
pub(crate) use parser::Modifiers;
pub(crate) use template::{Captured, Groups, Template};

/// A pattern of a rule.
#[derive(Debug)]
pub(crate) struct Pattern {
    tree: Node,
    engine: OnceLock<Engine>,
}

#[derive(Debug)]
enum Engine {
    Automaton(regex_automata::meta::Regex),
    Backtracking(pcre2::bytes::Regex),
    /// Neither engine takes it; the reason.
    None(String),
}

/// A search gave up before it knew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern ran into its limit: {0}")]
pub(crate) struct LimitReached(pub(crate) String);

impl Pattern {
    /// Reads a pattern with delimiters and modifiers, such as `/viagra/i`.
    #[cfg(test)]
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (body, modifiers) = delimited::split(text)?;
        Self::parse_bare(body, modifiers)
    }

    /// Reads a pattern without delimiters.
    pub(crate) fn parse_bare(body: &[u8], modifiers: Modifiers) -> Result<Self, String> {
        let tree = parser::parse(body, modifiers).map_err(|error| error.to_string())?;
        Ok(Self {
            tree,
            engine: OnceLock::new(),
        })
    }

    /// Splits a pattern with delimiters into its body and modifiers.
    pub(crate) fn split(text: &[u8]) -> Result<(&[u8], Modifiers), String> {
        delimited::split(text)
    }

    /// Texts in lower case of which each match contains at least one.
    pub(crate) fn literals(&self) -> Option<Literals> {
        literals::required(&self.tree)
    }

    /// Compiles now what would be compiled at the first search; an error says that the pattern
    /// cannot run.
    pub(crate) fn compile(&self) -> Result<(), String> {
        match self.engine() {
            Engine::None(reason) => Err(reason.clone()),
            Engine::Automaton(_) | Engine::Backtracking(_) => Ok(()),
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.get_or_init(|| {
            if let Some(regex) = automaton::translate(&self.tree)
                .as_ref()
                .and_then(automaton::compile)
            {
                return Engine::Automaton(regex);
            }
            backtracking::compile(&self.tree).map_or_else(Engine::None, Engine::Backtracking)
        })
    }

    /// The first match that begins at or after `start`.
    pub(crate) fn find(
        &self,
        text: &[u8],
        start: usize,
    ) -> Result<Option<(usize, usize)>, LimitReached> {
        if start > text.len() {
            return Ok(None);
        }
        match self.engine() {
            Engine::Automaton(regex) => Ok(automaton::find(regex, text, start)),
            Engine::Backtracking(regex) => regex
                .find_at(text, start)
                .map(|found| found.map(|found| (found.start(), found.end())))
                .map_err(|error| LimitReached(error.to_string())),
            Engine::None(reason) => Err(LimitReached(reason.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &[u8]) -> bool {
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        pattern.find(text, 0).unwrap().is_some()
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
        assert!(pattern.find(&text, 0).is_err());
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
        let find = |text: &str| pattern.find(text.as_bytes(), 0).unwrap();
        assert_eq!(find("PaSs3WORD4password,passWordendend"), Some((0, 33)));
        assert_eq!(find("passwordpassword endend"), None);
        assert_eq!(find("passwordpasswordpasswordendstop"), None);
    }

    #[test]
    fn required_literals() {
        let literals = |pattern: &str| {
            let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
            let texts = pattern.literals().map(|literals| literals.0);
            texts.map(|texts| {
                let texts = texts
                    .into_iter()
                    .map(|text| String::from_utf8(text).unwrap());
                texts.collect::<Vec<_>>().join("|")
            })
        };
        for (pattern, expected) in [
            ("/viagra/i", Some("viagra")),
            ("/v[i1]agra/i", Some("v1agra|viagra")),
            ("/(?:cheap|free).{0,9}meds/", Some("meds")),
            ("/lottery|winner/", Some("lottery|winner")),
            ("/lottery|[a-z]/", None),
            ("/colou?red/i", Some("colored|coloured")),
            ("/^(?!no).*unsubscribe$/", Some("unsubscribe")),
            ("/[A-Z]{5}/", None),
            ("/(ab){3}x*/", Some("ababab")),
            ("/a.b/", None),
        ] {
            assert_eq!(literals(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
