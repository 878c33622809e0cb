//! Packets as people write them, without our own codec: an error common to both halves of the codec
//! would not be detected otherwise.
//!
//! - `3c`, `003c`: bytes in hexadecimal
//! - `'text'`: the characters as they are; `'x'*100`: a hundred of them
//! - `"text"`: a string with its two bytes of length
//! - `( … )`: the bytes inside, preceded by their length as a Variable Byte Integer
//! - `[ … ]`: the same with two bytes of length
//! - `$name`: two bytes; expected, they may be anything and are remembered; sent, as remembered
//! - only expected: `?` is any byte, `*` any bytes to the end of the enclosing part

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

/// Values of `$name`.
pub(crate) type Names = HashMap<String, [u8; 2]>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Bytes(Vec<u8>),
    Name(String),
    AnyByte,
    Anything,
    /// With a Variable Byte Integer or two bytes of length in front.
    Counted(bool, Vec<Item>),
}

/// A packet, or what one should look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notation(Vec<Item>);

impl Notation {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut characters = text.chars().peekable();
        let items = items(&mut characters, None)?;
        Ok(Self(items))
    }

    /// The bytes to send.
    pub(crate) fn bytes(&self, names: &Names) -> Result<Vec<u8>, String> {
        write(&self.0, names)
    }

    /// Whether a packet looks like this; remembers names if it does.
    pub(crate) fn matches(&self, bytes: &[u8], names: &mut Names) -> bool {
        let mut found = names.clone();
        let matches = fits(&self.0, bytes, &mut found);
        if matches {
            *names = found;
        }
        matches
    }
}

fn items(characters: &mut Peekable<Chars<'_>>, end: Option<char>) -> Result<Vec<Item>, String> {
    let mut list = Vec::new();
    while let Some(character) = characters.next() {
        if Some(character) == end {
            return Ok(list);
        }
        let item = match character {
            ' ' => continue,
            '(' => Item::Counted(true, items(characters, Some(')'))?),
            '[' => Item::Counted(false, items(characters, Some(']'))?),
            '?' => Item::AnyByte,
            '*' => Item::Anything,
            '$' => Item::Name(word(characters)),
            '\'' => Item::Bytes(quoted(characters, '\'')?.into_bytes()),
            '"' => {
                let text = quoted(characters, '"')?.into_bytes();
                Item::Counted(false, vec![Item::Bytes(text)])
            }
            digit if digit.is_ascii_hexdigit() => Item::Bytes(hex(digit, characters)?),
            other => return Err(format!("'{other}' is not part of the notation")),
        };
        list.push(repeated(item, characters)?);
    }
    match end {
        None => Ok(list),
        Some(end) => Err(format!("'{end}' is missing")),
    }
}

fn word(characters: &mut Peekable<Chars<'_>>) -> String {
    let mut word = String::new();
    while let Some(character) = characters.next_if(|character| character.is_alphanumeric()) {
        word.push(character);
    }
    word
}

fn quoted(characters: &mut Peekable<Chars<'_>>, end: char) -> Result<String, String> {
    let mut text = String::new();
    for character in characters.by_ref() {
        if character == end {
            return Ok(text);
        }
        text.push(character);
    }
    Err(format!("{end} is missing"))
}

fn hex(first: char, characters: &mut Peekable<Chars<'_>>) -> Result<Vec<u8>, String> {
    let digits = format!("{first}{}", word(characters));
    if digits.len() % 2 != 0 {
        return Err(format!("{digits} is half a byte too long"));
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|error| error.to_string()))
        .collect()
}

/// `*N` right after bytes.
fn repeated(item: Item, characters: &mut Peekable<Chars<'_>>) -> Result<Item, String> {
    let Item::Bytes(bytes) = item else {
        return Ok(item);
    };
    if characters.next_if_eq(&'*').is_none() {
        return Ok(Item::Bytes(bytes));
    }
    let count: usize = word(characters)
        .parse()
        .map_err(|_| "a number is missing after *".to_owned())?;
    Ok(Item::Bytes(bytes.repeat(count)))
}

fn write(items: &[Item], names: &Names) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Item::Bytes(bytes) => out.extend_from_slice(bytes),
            Item::Name(name) => {
                let value = names.get(name);
                out.extend_from_slice(value.ok_or(format!("${name} is not known"))?);
            }
            Item::Counted(is_variable, inner) => {
                let inner = write(inner, names)?;
                if *is_variable {
                    put_variable(&mut out, inner.len());
                } else {
                    out.extend_from_slice(&(inner.len() as u16).to_be_bytes());
                }
                out.extend(inner);
            }
            Item::AnyByte | Item::Anything => return Err("? and * are not sent".to_owned()),
        }
    }
    Ok(out)
}

fn put_variable(out: &mut Vec<u8>, mut number: usize) {
    loop {
        let digit = (number % 128) as u8;
        number /= 128;
        if number == 0 {
            out.push(digit);
            return;
        }
        out.push(digit | 0x80);
    }
}

/// The number and the bytes after it; `None` too where it is longer than need be.
fn take_variable(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        number |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            let is_shortest = at == 0 || *byte != 0;
            return is_shortest.then(|| (number, &bytes[at + 1..]));
        }
    }
    None
}

fn fits(items: &[Item], bytes: &[u8], names: &mut Names) -> bool {
    let Some((first, rest)) = items.split_first() else {
        return bytes.is_empty();
    };
    match first {
        Item::Bytes(expected) => bytes
            .strip_prefix(expected.as_slice())
            .is_some_and(|bytes| fits(rest, bytes, names)),
        Item::Name(name) => {
            let Some((value, bytes)) = bytes.split_first_chunk::<2>() else {
                return false;
            };
            let known = *names.entry(name.clone()).or_insert(*value);
            known == *value && fits(rest, bytes, names)
        }
        Item::AnyByte => !bytes.is_empty() && fits(rest, &bytes[1..], names),
        Item::Anything => (0..=bytes.len()).any(|at| fits(rest, &bytes[at..], names)),
        Item::Counted(is_variable, inner) => {
            let counted = if *is_variable {
                take_variable(bytes)
            } else {
                bytes
                    .split_first_chunk::<2>()
                    .map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))
            };
            let Some((length, bytes)) = counted else {
                return false;
            };
            bytes.len() >= length
                && fits(inner, &bytes[..length], names)
                && fits(rest, &bytes[length..], names)
        }
    }
}

#[test]
fn packets_are_written_and_matched() {
    let mut names = Names::new();
    let publish = Notation::parse("32 ( \"a/b\" $id ( 02 0000001e ) 'x'*200 )").expect("notation");
    names.insert("id".to_owned(), [0, 7]);
    let bytes = publish.bytes(&names).expect("bytes");
    assert_eq!(&bytes[..9], b"\x32\xd5\x01\0\x03a/b\0");
    let mut found = Names::new();
    assert!(publish.matches(&bytes, &mut found));
    assert_eq!(found["id"], [0, 7]);
    let loose = Notation::parse("32 ( \"a/b\" ?? ( * 1e ) * )").expect("notation");
    assert!(loose.matches(&bytes, &mut found));
    let other = Notation::parse("32 ( \"a/c\" * )").expect("notation");
    assert!(!other.matches(&bytes, &mut found));
    for broken in ["(", "3", "'x", "x", "32 )"] {
        assert!(Notation::parse(broken).is_err(), "{broken}");
    }
}
