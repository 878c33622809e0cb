//! Character entities in text and attributes: `&amp;`, `&#228;`, `&#xE4;`.

use std::borrow::Cow;

use super::entity_table::ENTITIES;

/// The longest name of an entity.
const NAME_LENGTH_MAX: usize = 10;

/// The context of an entity, which decides how leniently it is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntityContext {
    /// In text `&nbspx` is read as `&nbsp;x`.
    Text,
    /// In an attribute, which is usually a URL with parameters, only complete names count.
    Attribute,
}

/// Decodes all entities. The flag is set if one of them is outside Latin-1.
pub(super) fn decode(text: &str, place: EntityContext) -> (Cow<'_, str>, bool) {
    let Some(first) = memchr::memchr(b'&', text.as_bytes()) else {
        return (Cow::Borrowed(text), false);
    };
    let mut out = String::with_capacity(text.len());
    let (mut beyond_latin1, mut high_surrogate) = (false, None);
    let (before, mut rest) = text.split_at(first);
    out.push_str(before);
    loop {
        // `rest` starts with an ampersand.
        match entity_at(rest, place) {
            Some((Entity::Character(character), length)) => {
                beyond_latin1 |= character > '\u{ff}';
                out.push(character);
                high_surrogate = None;
                rest = rest.get(length..).unwrap_or_default();
            }
            Some((Entity::Surrogate(unit), length)) => {
                beyond_latin1 = true;
                let pair = high_surrogate.take().and_then(|high| combine(high, unit));
                if let Some(character) = pair {
                    out.pop();
                    out.push(character);
                } else {
                    out.push(char::REPLACEMENT_CHARACTER);
                    high_surrogate = (unit & 0xfc00 == 0xd800).then_some(unit);
                }
                rest = rest.get(length..).unwrap_or_default();
                if !rest.starts_with('&') {
                    high_surrogate = None;
                }
            }
            None => {
                out.push('&');
                rest = rest.get(1..).unwrap_or_default();
            }
        }
        let Some(next) = memchr::memchr(b'&', rest.as_bytes()) else {
            break;
        };
        let (before, after) = rest.split_at(next);
        out.push_str(before);
        rest = after;
    }
    out.push_str(rest);
    (Cow::Owned(out), beyond_latin1)
}

enum Entity {
    Character(char),
    Surrogate(u32),
}

fn combine(high: u32, low: u32) -> Option<char> {
    (low & 0xfc00 == 0xdc00)
        .then(|| char::from_u32(((high - 0xd800) << 10) + (low - 0xdc00) + 0x1_0000))?
}

/// The entity at the start of `text` and its length.
fn entity_at(text: &str, place: EntityContext) -> Option<(Entity, usize)> {
    let bytes = text.as_bytes();
    let (entity, length) = if bytes.get(1) == Some(&b'#') {
        numeric(bytes)?
    } else {
        named(text, place)?
    };
    Some((
        entity,
        length + usize::from(bytes.get(length) == Some(&b';')),
    ))
}

fn numeric(bytes: &[u8]) -> Option<(Entity, usize)> {
    let hexadecimal = matches!(bytes.get(2), Some(b'x' | b'X'));
    let (start, radix) = if hexadecimal { (3, 16) } else { (2, 10) };
    let mut number = 0_u32;
    let mut at = start;
    while let Some(digit) = bytes
        .get(at)
        .and_then(|&byte| char::from(byte).to_digit(radix))
    {
        number = number * radix + digit;
        if number > 0x10_ffff {
            return None;
        }
        at += 1;
    }
    if at == start || number == 0 || matches!(number, 0xfffe | 0xffff) {
        return None;
    }
    let entity = match number {
        0xd800..=0xdfff => Entity::Surrogate(number),
        0xfdd0..=0xfdef => Entity::Character(char::REPLACEMENT_CHARACTER),
        _ if number & 0xfffe == 0xfffe => Entity::Character(char::REPLACEMENT_CHARACTER),
        _ => Entity::Character(char::from_u32(number)?),
    };
    Some((entity, at))
}

fn lookup(name: &str) -> Option<(char, bool)> {
    let index = ENTITIES
        .binary_search_by(|(known, _, _)| (*known).cmp(name))
        .ok()?;
    ENTITIES
        .get(index)
        .map(|&(_, character, bare)| (character, bare))
}

fn named(text: &str, place: EntityContext) -> Option<(Entity, usize)> {
    let bytes = text.as_bytes();
    let length = bytes
        .iter()
        .skip(1)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let name = text.get(1..=length)?;
    let semicolon = bytes.get(length + 1) == Some(&b';');
    if length <= NAME_LENGTH_MAX
        && let Some((character, bare)) = lookup(name)
        && (bare || semicolon)
    {
        return Some((Entity::Character(character), length + 1));
    }
    if place == EntityContext::Attribute {
        return None;
    }
    (1..length.min(NAME_LENGTH_MAX + 1))
        .rev()
        .find_map(|shorter| match lookup(name.get(..shorter)?) {
            Some((character, true)) => Some((Entity::Character(character), shorter + 1)),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        decode(text, EntityContext::Text).0.into_owned()
    }

    #[test]
    fn entities_are_decoded_as_browsers_do() {
        assert_eq!(
            text("a &lt b&nbspc &amp;amp; &Alpha &Alpha;"),
            "a < b\u{a0}c &amp; &Alpha \u{391}"
        );
        assert_eq!(
            text("&#65;&#x42 &#0; &#x110000; &;&"),
            "AB &#0; &#x110000; &;&"
        );
        assert_eq!(text("&#xd83d;&#xde00;"), "\u{1f600}");
        assert_eq!(
            decode("?a=1&copy=2&lt;", EntityContext::Attribute).0,
            "?a=1\u{a9}=2<"
        );
        assert_eq!(
            decode("?a=1&copyx=2", EntityContext::Attribute).0,
            "?a=1&copyx=2"
        );
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(ENTITIES.is_sorted_by_key(|(name, _, _)| *name));
    }
}
