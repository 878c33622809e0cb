//! Parses Perl's regular expressions into [`Node`]s.
//!
//! All modifiers are applied here: `/i` extends byte sets by the other case, `/s` and `/m` decide
//! the meaning of `.`, `^` and `$`, `/x` ignores blanks. SpamAssassin compiles every pattern under
//! `/aa` and matches it against byte strings, so classes are ASCII and code points above 255 match
//! nothing.

use super::cursor::{Modifiers, PatternParser};
use super::error::SyntaxError;
use super::escapes;
use super::node::{Assertion, Greediness, GroupReference, Node};
use crate::byte_set::ByteSet;

/// The maximum nesting of groups, since the parser is recursive.
const NESTING_MAX: u32 = 200;
/// The largest count of a quantifier that both Perl and PCRE2 accept.
const REPEAT_MAX: u32 = 65_534;

/// Parses a pattern without its delimiters.
pub(crate) fn parse(pattern: &[u8], modifiers: Modifiers) -> Result<Node, SyntaxError> {
    let mut parser = PatternParser {
        pattern,
        position: 0,
        modifiers,
        depth: 0,
        groups_opened: 0,
        groups_total: escapes::count_groups(pattern),
    };
    let node = parser.alternation()?;
    if parser.position < pattern.len() {
        return Err(parser.error("unmatched )"));
    }
    Ok(node)
}

impl PatternParser<'_> {
    fn alternation(&mut self) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.error("groups are nested too deeply"));
        }
        // An inline modifier such as (?i) holds to the end of its group.
        let modifiers = self.modifiers;
        let mut branches = vec![self.concatenation()?];
        while self.take(b"|") {
            branches.push(self.concatenation()?);
        }
        self.modifiers = modifiers;
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Alternate(branches),
        })
    }

    fn concatenation(&mut self) -> Result<Node, SyntaxError> {
        let mut parts = Vec::new();
        loop {
            self.skip_blanks()?;
            if matches!(self.peek(), None | Some(b'|' | b')')) {
                break;
            }
            let Some(atom) = self.atom()? else { continue };
            let part = self.quantified(atom)?;
            if part != Node::Empty {
                parts.push(part);
            }
        }
        Ok(match parts.len() {
            0 => Node::Empty,
            1 => parts.remove(0),
            _ => Node::Concat(parts),
        })
    }

    /// Skips comments and blanks that `/x` permits between atoms, and `(?#…)`.
    fn skip_blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            if self.take(b"(?#") {
                self.until(b')')?;
            } else if !self.modifiers.extended {
                return Ok(());
            } else if self.take(b"#") {
                let rest = self.rest();
                self.position += memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            } else if self.peek().is_some_and(is_blank) {
                self.position += 1;
            } else {
                return Ok(());
            }
        }
    }

    /// `None` for a group that only changes modifiers.
    fn atom(&mut self) -> Result<Option<Node>, SyntaxError> {
        let Some(byte) = self.next() else {
            return Ok(None);
        };
        Ok(Some(match byte {
            b'(' => return self.group(),
            b'[' => self.bracketed_class()?,
            b'\\' => self.escape()?,
            b'.' if self.modifiers.dot_all => Node::Byte(ByteSet::ALL),
            b'.' => Node::Byte(ByteSet::one(b'\n').complement()),
            b'^' if self.modifiers.multi_line => Node::Assertion(Assertion::LineStart),
            b'^' => Node::Assertion(Assertion::TextStart),
            b'$' if self.modifiers.multi_line => Node::Assertion(Assertion::LineEnd),
            b'$' => Node::Assertion(Assertion::TextEndOrLastLineFeed),
            b'*' | b'+' | b'?' => {
                self.position -= 1;
                return Err(self.error("quantifier follows nothing"));
            }
            _ => self.literal(byte),
        }))
    }

    fn quantified(&mut self, atom: Node) -> Result<Node, SyntaxError> {
        self.skip_blanks()?;
        let Some((min, max)) = self.quantifier()? else {
            return Ok(atom);
        };
        let greed = if self.take(b"?") {
            Greediness::Lazy
        } else if self.take(b"+") {
            Greediness::Possessive
        } else {
            Greediness::Greedy
        };
        self.skip_blanks()?;
        let again = self.position;
        if self.quantifier()?.is_some() {
            self.position = again;
            return Err(self.error("nested quantifiers"));
        }
        Ok(Node::Repeat {
            inner: Box::new(atom),
            min,
            max,
            greed,
        })
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>, SyntaxError> {
        Ok(match self.peek() {
            Some(b'*') => {
                self.position += 1;
                Some((0, None))
            }
            Some(b'+') => {
                self.position += 1;
                Some((1, None))
            }
            Some(b'?') => {
                self.position += 1;
                Some((0, Some(1)))
            }
            Some(b'{') => self.braces()?,
            _ => None,
        })
    }

    /// `{2}`, `{2,}`, `{,3}`, `{2,3}`; anything else is a literal brace.
    fn braces(&mut self) -> Result<Option<(u32, Option<u32>)>, SyntaxError> {
        let Some(length) = memchr::memchr(b'}', self.rest()) else {
            return Ok(None);
        };
        let text = self.rest().get(1..length).unwrap_or_default();
        let Ok(text) = std::str::from_utf8(text) else {
            return Ok(None);
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (min, max) = match text.split_once(',') {
            None => (text.trim(), Some(text.trim())),
            Some((min, max)) if max.trim().is_empty() => (min.trim(), None),
            Some((min, max)) if min.trim().is_empty() => ("0", Some(max.trim())),
            Some((min, max)) => (min.trim(), Some(max.trim())),
        };
        if !is_number(min) || max.is_some_and(|max| !is_number(max)) {
            return Ok(None);
        }
        let bound = |text: &str| {
            text.parse()
                .ok()
                .filter(|&count: &u32| count <= REPEAT_MAX)
                .ok_or_else(|| self.error("quantifier is too big"))
        };
        let (min, max) = (bound(min)?, max.map(bound).transpose()?);
        if max.is_some_and(|max| max < min) {
            return Err(self.error("quantifier can never match"));
        }
        self.position += length + 1;
        Ok(Some((min, max)))
    }

    /// After the opening parenthesis.
    fn group(&mut self) -> Result<Option<Node>, SyntaxError> {
        if self.peek() == Some(b'*') {
            return Err(self.error("control verbs are not supported"));
        }
        if !self.take(b"?") {
            self.groups_opened += u32::from(!self.modifiers.no_capture);
            let inner = Box::new(self.alternation()?);
            self.close()?;
            return Ok(Some(if self.modifiers.no_capture {
                *inner
            } else {
                Node::Capture { name: None, inner }
            }));
        }
        let looks: [(&[u8], bool, bool); 4] = [
            (b"=", false, false),
            (b"!", false, true),
            (b"<=", true, false),
            (b"<!", true, true),
        ];
        for (opening, behind, negated) in looks {
            if self.take(opening) {
                let inner = Box::new(self.alternation()?);
                self.close()?;
                return Ok(Some(Node::Look {
                    behind,
                    negated,
                    inner,
                }));
            }
        }
        self.special_group()
    }

    fn special_group(&mut self) -> Result<Option<Node>, SyntaxError> {
        if self.take(b">") {
            let inner = Box::new(self.alternation()?);
            self.close()?;
            return Ok(Some(Node::Atomic(inner)));
        }
        if self.take(b"|") {
            let inner = self.alternation()?;
            self.close()?;
            return Ok(Some(Node::BranchReset(match inner {
                Node::Alternate(branches) => branches,
                other => vec![other],
            })));
        }
        for (opening, end) in [(&b"P<"[..], b'>'), (b"<", b'>'), (b"'", b'\'')] {
            if self.take(opening) {
                let name = Some(self.group_name(end)?);
                self.groups_opened += 1;
                let inner = Box::new(self.alternation()?);
                self.close()?;
                return Ok(Some(Node::Capture { name, inner }));
            }
        }
        if self.take(b"P=") {
            let group = GroupReference::Name(self.group_name(b')')?);
            let folded = self.modifiers.fold_case;
            return Ok(Some(Node::BackReference { group, folded }));
        }
        if self.take(b"P>") || self.take(b"&") {
            return Ok(Some(Node::Recurse(GroupReference::Name(
                self.group_name(b')')?,
            ))));
        }
        if self.take(b"R)") {
            return Ok(Some(Node::Recurse(GroupReference::Number(0))));
        }
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            let number = self.until(b')')?;
            let number = number.parse().map_err(|_| self.error("bad recursion"))?;
            return Ok(Some(Node::Recurse(GroupReference::Number(number))));
        }
        if self.take(b"(") {
            return self.conditional().map(Some);
        }
        self.modifier_group()
    }

    fn conditional(&mut self) -> Result<Node, SyntaxError> {
        let group = if self.take(b"<") {
            let name = self.group_name(b'>')?;
            self.close()?;
            GroupReference::Name(name)
        } else {
            let number = self.until(b')')?;
            GroupReference::Number(
                number
                    .parse()
                    .map_err(|_| self.error("only groups are supported as conditions"))?,
            )
        };
        let (yes, no) = match self.alternation()? {
            Node::Alternate(mut branches) if branches.len() == 2 => {
                let no = branches.pop().unwrap_or(Node::Empty);
                (branches.pop().unwrap_or(Node::Empty), no)
            }
            Node::Alternate(_) => return Err(self.error("a condition has two branches at most")),
            yes => (yes, Node::Empty),
        };
        self.close()?;
        Ok(Node::Conditional {
            group,
            yes: Box::new(yes),
            no: Box::new(no),
        })
    }

    /// `(?i)`, `(?i-s)`, `(?i:…)`, `(?^:…)`.
    fn modifier_group(&mut self) -> Result<Option<Node>, SyntaxError> {
        let outer = self.modifiers;
        let mut modifiers = outer;
        let (mut on, mut has_x) = (true, false);
        if self.take(b"^") {
            modifiers = Modifiers::default();
        }
        loop {
            match self.next() {
                Some(b'-') => on = false,
                Some(b')') => {
                    self.modifiers = modifiers;
                    return Ok(None);
                }
                Some(b':') => break,
                Some(b'x') if on && !has_x => {
                    // Under /xx, (?x) means /x alone.
                    has_x = true;
                    (modifiers.extended, modifiers.extended_classes) = (true, false);
                }
                Some(letter) if modifiers.set(letter, on) => {}
                _ => return Err(self.error("unknown kind of group (?…)")),
            }
        }
        self.modifiers = modifiers;
        let inner = self.alternation()?;
        self.close()?;
        self.modifiers = outer;
        // A group of its own, so that a quantifier after it repeats all of it.
        Ok(Some(inner))
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        if self.take(b")") {
            Ok(())
        } else {
            Err(self.error("missing )"))
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
