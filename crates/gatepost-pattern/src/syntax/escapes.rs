//! The part of the parser for escapes and bracketed classes.

use super::cursor::PatternParser;
use super::error::SyntaxError;
use super::node::{Assertion, GroupReference, Node};
use crate::byte_set::ByteSet;

/// The meaning of an escape.
enum Escape {
    /// One byte.
    Byte(u8),
    /// A code point beyond bytes, which no byte string contains.
    Beyond,
    /// One byte of a set.
    Set(ByteSet),
}

/// `\d`, `\w`, `\s`, `\h`, `\v`, `\N` and their opposites.
fn named_set(letter: u8) -> Option<ByteSet> {
    let set: ByteSet = match letter.to_ascii_lowercase() {
        b'd' => ByteSet::range(b'0', b'9'),
        b'w' => (0..=u8::MAX)
            .filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            .collect(),
        b's' => b"\t\n\x0B\x0C\r ".iter().copied().collect(),
        // These two include the blanks of Latin-1 even under /aa.
        b'h' => b"\t \xA0".iter().copied().collect(),
        b'v' => b"\n\x0B\x0C\r\x85".iter().copied().collect(),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() {
        set.complement()
    } else {
        set
    })
}

/// The POSIX classes, ASCII only.
fn posix_set(name: &str) -> Option<ByteSet> {
    let member: fn(u8) -> bool = match name {
        "alpha" => |byte| byte.is_ascii_alphabetic(),
        "digit" => |byte| byte.is_ascii_digit(),
        "alnum" => |byte| byte.is_ascii_alphanumeric(),
        "upper" => |byte| byte.is_ascii_uppercase(),
        "lower" => |byte| byte.is_ascii_lowercase(),
        "space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        "blank" => |byte| matches!(byte, b' ' | b'\t'),
        "punct" => |byte| byte.is_ascii_punctuation(),
        "print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        "graph" => |byte| byte.is_ascii_graphic(),
        "cntrl" => |byte| byte.is_ascii_control(),
        "xdigit" => |byte| byte.is_ascii_hexdigit(),
        "word" => |byte| byte.is_ascii_alphanumeric() || byte == b'_',
        "ascii" => |byte| byte.is_ascii(),
        _ => return None,
    };
    Some((0..=u8::MAX).filter(|&byte| member(byte)).collect())
}

/// Counts opening parentheses that capture; an estimate, since it ignores classes.
pub(super) fn count_groups(pattern: &[u8]) -> u32 {
    let mut count = 0;
    let mut bytes = pattern.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'(' if bytes.peek() != Some(&&b'?') => count += 1,
            _ => {}
        }
    }
    count
}

impl PatternParser<'_> {
    /// After the backslash, outside a class.
    pub(super) fn escape(&mut self) -> Result<Node, SyntaxError> {
        let letter = self
            .peek()
            .ok_or_else(|| self.error("trailing backslash"))?;
        let assertion = match letter {
            b'b' => Some(Assertion::WordBoundary),
            b'B' => Some(Assertion::NotWordBoundary),
            b'A' => Some(Assertion::TextStart),
            b'Z' => Some(Assertion::TextEndOrLastLineFeed),
            b'z' => Some(Assertion::TextEnd),
            b'G' => Some(Assertion::SearchStart),
            b'K' => Some(Assertion::Keep),
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.position += 1;
            if matches!(letter, b'b' | b'B') && self.peek() == Some(b'{') {
                return Err(self.error("Unicode boundaries are not supported"));
            }
            return Ok(Node::Assertion(assertion));
        }
        match letter {
            b'1'..=b'9' => self.numbered_reference(),
            b'g' | b'k' => self.named_reference(letter),
            b'R' => {
                self.position += 1;
                Ok(line_break())
            }
            b'N' if self.rest().get(1) != Some(&b'{') => {
                self.position += 1;
                Ok(Node::Byte(ByteSet::one(b'\n').complement()))
            }
            _ => Ok(match self.class_escape()? {
                Escape::Byte(byte) => self.literal(byte),
                Escape::Beyond => Node::Byte(ByteSet::EMPTY),
                Escape::Set(set) => Node::Byte(set),
            }),
        }
    }

    /// `\1`, or from `\10` on an octal code if fewer groups were opened before.
    fn numbered_reference(&mut self) -> Result<Node, SyntaxError> {
        let digits: Vec<u8> = self
            .rest()
            .iter()
            .copied()
            .take_while(u8::is_ascii_digit)
            .collect();
        let number = String::from_utf8_lossy(&digits).parse().unwrap_or(u32::MAX);
        if number >= 10 && number > self.groups_opened {
            let byte = self.octal()?;
            return Ok(self.literal(byte));
        }
        if number > self.groups_total.max(self.groups_opened) {
            return Err(self.error("reference to a group that is not there"));
        }
        self.position += digits.len();
        Ok(Node::BackReference {
            group: GroupReference::Number(number),
            folded: self.modifiers.fold_case,
        })
    }

    /// `\g1`, `\g{1}`, `\g{name}`, `\k<name>`, `\k'name'`, `\k{name}`.
    fn named_reference(&mut self, letter: u8) -> Result<Node, SyntaxError> {
        self.position += 1;
        let folded = self.modifiers.fold_case;
        let text = match self.next() {
            Some(b'{') => self.until(b'}')?,
            Some(b'<') if letter == b'k' => self.until(b'>')?,
            Some(b'\'') if letter == b'k' => self.until(b'\'')?,
            Some(digit) if digit.is_ascii_digit() && letter == b'g' => char::from(digit).into(),
            _ => return Err(self.error("bad reference to a group")),
        };
        let group = match text.parse::<u32>() {
            Ok(number) if number > 0 && number <= self.groups_total => {
                GroupReference::Number(number)
            }
            Ok(_) => return Err(self.error("reference to a group that is not there")),
            Err(_) if text.starts_with('-') => {
                return Err(self.error("relative references are not supported"));
            }
            Err(_) => GroupReference::Name(text),
        };
        Ok(Node::BackReference { group, folded })
    }

    fn octal(&mut self) -> Result<u8, SyntaxError> {
        let mut value: u32 = 0;
        let mut digits = 0;
        while digits < 3 {
            match self.peek() {
                Some(digit @ b'0'..=b'7') => value = value * 8 + u32::from(digit - b'0'),
                _ => break,
            }
            self.position += 1;
            digits += 1;
        }
        u8::try_from(value).map_err(|_| self.error("octal code beyond a byte"))
    }

    /// After the backslash: the escapes that are permitted both inside and outside a class.
    fn class_escape(&mut self) -> Result<Escape, SyntaxError> {
        let letter = self
            .next()
            .ok_or_else(|| self.error("trailing backslash"))?;
        if let Some(set) = named_set(letter) {
            return Ok(Escape::Set(set));
        }
        Ok(Escape::Byte(match letter {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'f' => 0x0C,
            b'a' => 0x07,
            b'e' => 0x1B,
            b'0' => {
                self.position -= 1;
                self.octal()?
            }
            b'c' => {
                let letter = self.next().ok_or_else(|| self.error("missing letter"))?;
                letter.to_ascii_uppercase() ^ 0x40
            }
            b'x' => return self.hexadecimal(),
            b'o' | b'N' if self.take(b"{") => {
                let text = self.until(b'}')?;
                let (digits, base) = match (letter, text.strip_prefix("U+")) {
                    (b'N', Some(digits)) => (digits, 16),
                    (b'N', None) => return Err(self.error("named characters are not supported")),
                    _ => (text.as_str(), 8),
                };
                return self.code_point(digits, base);
            }
            b'p' | b'P' | b'X' => {
                return Err(self.error("Unicode properties are not supported"));
            }
            letter if letter.is_ascii_alphanumeric() => {
                return Err(self.error(format!("unknown escape \\{}", char::from(letter))));
            }
            other => other,
        }))
    }

    /// `\x41`, `\x{41}`.
    fn hexadecimal(&mut self) -> Result<Escape, SyntaxError> {
        if self.take(b"{") {
            let text = self.until(b'}')?;
            return self.code_point(text.trim(), 16);
        }
        let mut value = 0;
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                break;
            };
            value = value * 16 + digit as u8;
            self.position += 1;
        }
        Ok(Escape::Byte(value))
    }

    fn code_point(&self, digits: &str, base: u32) -> Result<Escape, SyntaxError> {
        let value =
            u32::from_str_radix(digits, base).map_err(|_| self.error("bad code of a character"))?;
        Ok(u8::try_from(value).map_or(Escape::Beyond, Escape::Byte))
    }

    /// After the opening bracket.
    pub(super) fn bracketed_class(&mut self) -> Result<Node, SyntaxError> {
        let negated = self.take(b"^");
        let mut set = ByteSet::EMPTY;
        let mut first = true;
        loop {
            let byte = self.next().ok_or_else(|| self.error("missing ]"))?;
            match byte {
                b']' if !first => break,
                b' ' | b'\t' if self.modifiers.extended_classes => continue,
                _ => {}
            }
            first = false;
            let start = match self.class_item(byte)? {
                Escape::Set(part) => {
                    set = set.union(&part);
                    continue;
                }
                Escape::Byte(start) => Some(start),
                Escape::Beyond => None,
            };
            let ranged =
                self.peek() == Some(b'-') && !matches!(self.rest().get(1), None | Some(b']'));
            if !ranged {
                set = set.union(&start.map_or(ByteSet::EMPTY, ByteSet::one));
                continue;
            }
            self.position += 1;
            let byte = self.next().ok_or_else(|| self.error("missing ]"))?;
            match (start, self.class_item(byte)?) {
                (Some(start), Escape::Byte(end)) if start <= end => {
                    set = set.union(&ByteSet::range(start, end));
                }
                (Some(start), Escape::Beyond) => set = set.union(&ByteSet::range(start, u8::MAX)),
                (None, Escape::Beyond) => {}
                (_, Escape::Set(_)) => return Err(self.error("a range ends in a class")),
                _ => return Err(self.error("invalid range")),
            }
        }
        if self.modifiers.fold_case {
            set = set.fold_case();
        }
        Ok(Node::Byte(if negated { set.complement() } else { set }))
    }

    /// One member of a class, whose first byte is already taken.
    fn class_item(&mut self, byte: u8) -> Result<Escape, SyntaxError> {
        match byte {
            b'[' if self.peek() == Some(b':') => self.posix_class(),
            b'\\' if self.take(b"b") => Ok(Escape::Byte(0x08)),
            b'\\' if matches!(self.peek(), Some(b'1'..=b'7')) => self.octal().map(Escape::Byte),
            b'\\' => self.class_escape(),
            _ => Ok(Escape::Byte(byte)),
        }
    }

    fn posix_class(&mut self) -> Result<Escape, SyntaxError> {
        let rest = self.rest();
        // Without its end it is an ordinary bracket.
        let Some(end) = memchr::memmem::find(rest, b":]") else {
            return Ok(Escape::Byte(b'['));
        };
        let name = String::from_utf8_lossy(rest.get(1..end).unwrap_or_default()).into_owned();
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'^')
        {
            return Ok(Escape::Byte(b'['));
        }
        let bare = name.trim_start_matches('^');
        let set = posix_set(bare).ok_or_else(|| self.error(format!("no class [:{name}:]")))?;
        self.position += end + 2;
        Ok(Escape::Set(if bare.len() < name.len() {
            set.complement()
        } else {
            set
        }))
    }
}

/// `\R`: one line break of any kind, never half of one.
fn line_break() -> Node {
    let byte = |byte| Node::Byte(ByteSet::one(byte));
    Node::Atomic(Box::new(Node::Alternate(vec![
        Node::Concat(vec![byte(b'\r'), byte(b'\n')]),
        Node::Byte(named_set(b'v').unwrap_or_default()),
    ])))
}
