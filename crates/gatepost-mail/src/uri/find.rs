//! Finds the links that a mail program would make clickable in plain text.
//!
//! There are three kinds: links with a scheme or `www.`, mail addresses, and bare host names that
//! end in a known top-level domain. Each is within one run of characters that are permitted in a
//! link, so the text is divided into such runs first, and only runs with a dot, colon or at sign
//! are examined.

use crate::ascii::{is_space, is_word, starts_with_ignore_case};
use crate::domain::RegistrarBoundaries;

/// The longest link, in bytes.
const LINK_LENGTH_MAX: usize = 2048;
/// The longest local part and the longest domain of an address, in bytes.
const ADDRESS_PART_LENGTH_MAX: usize = 251;
/// The longest bare host before its top-level domain, in bytes.
const HOST_LENGTH_MAX: usize = 252;

/// The kind of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    /// The link has a scheme, or begins like a web or file server.
    Scheme,
    /// The link is a mail address.
    Mail,
    /// The link is a host name that ends `host_length` bytes after its start, perhaps with a path.
    Bare {
        /// The length of the host name.
        host_length: usize,
    },
}

const ENDS_LINK: u8 = 1;
const ENDS_ADDRESS: u8 = 2;
const STARTS_LINK: u8 = 4;
const STARTS_BARE: u8 = 8;
const IN_HOST: u8 = 16;

/// The roles of each byte value in or beside a link.
const CLASS: [u8; 256] = {
    let mut table = [0_u8; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        let blank = is_space(byte) || byte == 0x1b || byte == 0xa0;
        let mut class = 0;
        if blank
            || matches!(
                byte,
                b'>' | b'<' | b'"' | b'`' | b'}' | b']' | b'{' | b'[' | b'|'
            )
        {
            class |= ENDS_LINK | ENDS_ADDRESS;
        }
        if matches!(byte, b',' | b'(' | b'\'' | 0x80..=0xff) {
            class |= ENDS_ADDRESS;
        }
        if blank
            || matches!(
                byte,
                b'>' | b'<' | b'"' | b'\'' | b'`' | b',' | b'{' | b'[' | b'(' | b'|'
            )
        {
            class |= STARTS_LINK;
        }
        if blank
            || matches!(
                byte,
                b'!'..=b'$' | b'&'..=b',' | b'/' | b':'..=b'@' | b'['..=b'^' | b'`' | b'{'..=b'~'
            )
        {
            class |= STARTS_BARE;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            class |= IN_HOST;
        }
        table[index] = class;
        index += 1;
    }
    table
};

fn has(byte: Option<&u8>, class: u8) -> bool {
    byte.is_some_and(|&byte| CLASS[usize::from(byte)] & class != 0)
}

/// Calls `found` with each link in `line`.
pub(super) fn find_links(
    line: &[u8],
    boundaries: &RegistrarBoundaries,
    mut found: impl FnMut(LinkKind, &[u8]),
) {
    let ends_link = |&byte: &u8| CLASS[usize::from(byte)] & ENDS_LINK != 0;
    let mut from = 0;
    while let Some(rest) = line.get(from..) {
        // Every link contains one of these; most texts contain none.
        let Some(mark) = memchr::memchr3(b'.', b':', b'@', rest) else {
            return;
        };
        let (before, after) = rest.split_at(mark);
        let start = from + before.iter().rposition(ends_link).map_or(0, |at| at + 1);
        let length = after.iter().position(ends_link).unwrap_or(after.len());
        let end = from + mark + length;
        if end - start >= 4 {
            find_in_run(line, start, end, boundaries, &mut found);
        }
        from = end + 1;
    }
}

fn find_in_run(
    line: &[u8],
    start: usize,
    end: usize,
    boundaries: &RegistrarBoundaries,
    found: &mut impl FnMut(LinkKind, &[u8]),
) {
    let mut address = NextAddress {
        line,
        end,
        at: None,
        from: start,
        examined: start,
    };
    let mut at = start;
    while at < end {
        if !may_start(line, at) {
            at += 1;
            continue;
        }
        let next = scheme_at(line, at, end)
            .map(|end| (LinkKind::Scheme, end))
            .or_else(|| address.starting_at(at).map(|end| (LinkKind::Mail, end)))
            .or_else(|| {
                bare_at(line, at, end, boundaries)
                    .map(|(host_length, end)| (LinkKind::Bare { host_length }, end))
            });
        match next {
            Some((kind, next)) => {
                found(kind, line.get(at..next).unwrap_or_default());
                at = next;
            }
            None => at += 1,
        }
    }
}

/// Whether a link can start at this position: at a word boundary, after a delimiter, or after an
/// ISO 2022 shift (ESC ( X).
fn may_start(line: &[u8], at: usize) -> bool {
    let here = line.get(at).copied().is_some_and(is_word);
    let Some(before) = at.checked_sub(1) else {
        return here;
    };
    let word_before = line.get(before).copied().is_some_and(is_word);
    word_before != here
        || has(line.get(before), STARTS_LINK)
        || at >= 3 && line.get(at - 3..at - 1) == Some(b"\x1b(")
}

/// The end of a link with a scheme.
fn scheme_at(line: &[u8], at: usize, end: usize) -> Option<usize> {
    let rest = line.get(at..end)?;
    let prefix = match rest.first()? {
        b'h' | b'H' => [&b"http://"[..], b"https://"]
            .into_iter()
            .find(|scheme| starts_with_ignore_case(rest, scheme))?
            .len(),
        b'f' | b'F' if starts_with_ignore_case(rest, b"ftp://") => 6,
        b'f' | b'F' if starts_with_ignore_case(rest, b"ftp.") => 4,
        b'w' | b'W' if starts_with_ignore_case(rest, b"www") => {
            let digits = rest
                .iter()
                .skip(3)
                .take(2)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if rest.get(3 + digits) != Some(&b'.') {
                return None;
            }
            4 + digits
        }
        _ => return None,
    };
    (1..=LINK_LENGTH_MAX)
        .contains(&(rest.len() - prefix))
        .then_some(end)
}

/// The next address.
struct NextAddress<'a> {
    line: &'a [u8],
    end: usize,
    /// Its at sign and its end.
    at: Option<(usize, usize)>,
    /// The first position at which its local part can start.
    from: usize,
    /// The position up to which at signs were sought.
    examined: usize,
}

impl NextAddress<'_> {
    /// The end of an address that starts at `at`.
    fn starting_at(&mut self, at: usize) -> Option<usize> {
        if let Some(end) = self.mailto_at(at) {
            return Some(end);
        }
        while self.at.is_none_or(|(sign, _)| sign < at) {
            if self.examined >= self.end {
                return None;
            }
            self.find_at_sign(at);
        }
        let (sign, end) = self.at?;
        (at >= self.from && at < sign && end > sign).then_some(end)
    }

    fn mailto_at(&self, at: usize) -> Option<usize> {
        let rest = self.line.get(at..self.end)?;
        if !starts_with_ignore_case(rest, b"mailto:") {
            return None;
        }
        let length = rest
            .iter()
            .skip(7)
            .take_while(|byte| !has(Some(byte), ENDS_ADDRESS))
            .count();
        (1..=LINK_LENGTH_MAX)
            .contains(&length)
            .then_some(at + 7 + length)
    }

    /// Finds the next at sign, and the range of its address.
    fn find_at_sign(&mut self, at: usize) {
        let from = self.examined.max(at);
        let rest = self.line.get(from..self.end).unwrap_or_default();
        let Some(length) = memchr::memchr(b'@', rest) else {
            (self.at, self.examined) = (None, self.end);
            return;
        };
        let sign = from + length;
        self.examined = sign + 1;
        let local = self.line.get(..sign).unwrap_or_default();
        let local_length = local
            .iter()
            .rev()
            .take(ADDRESS_PART_LENGTH_MAX)
            .take_while(|byte| **byte != b'@' && !has(Some(byte), ENDS_ADDRESS))
            .count();
        self.from = sign - local_length;
        let domain = self.line.get(sign + 1..self.end).unwrap_or_default();
        let domain_length = domain
            .iter()
            .take_while(|byte| !has(Some(byte), ENDS_ADDRESS))
            .count();
        let fits = (1..=ADDRESS_PART_LENGTH_MAX).contains(&domain_length);
        self.at = Some((sign, if fits { sign + 1 + domain_length } else { sign }));
    }
}

/// The length of a bare host name, and the end of the link that contains it.
fn bare_at(
    line: &[u8],
    at: usize,
    end: usize,
    boundaries: &RegistrarBoundaries,
) -> Option<(usize, usize)> {
    let starts = at
        .checked_sub(1)
        .is_none_or(|before| has(line.get(before), STARTS_BARE));
    let rest = line.get(at..end)?;
    if !starts || !rest.first()?.is_ascii_alphanumeric() {
        return None;
    }
    let run = rest
        .iter()
        .take_while(|byte| has(Some(byte), IN_HOST))
        .count();
    let host = rest.get(..run)?;
    let (host, mut position) = match host.strip_suffix(b".") {
        Some(host) => (host, run),
        None => (host, run),
    };
    let dot = memchr::memrchr(b'.', host)?;
    if dot == 0 || dot > HOST_LENGTH_MAX {
        return None;
    }
    let top = std::str::from_utf8(host.get(dot + 1..)?)
        .ok()?
        .to_ascii_lowercase();
    if !boundaries.top_level.contains(top.as_str()) {
        return None;
    }
    if rest.get(position) == Some(&b':') {
        let digits = rest
            .iter()
            .skip(position + 1)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if (1..=5).contains(&digits) {
            position += 1 + digits;
        }
    }
    if rest.get(position) == Some(&b'/')
        && (1..=LINK_LENGTH_MAX).contains(&(rest.len() - position - 1))
    {
        position = rest.len();
    }
    (position == rest.len()).then_some((host.len(), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(line: &str) -> Vec<String> {
        let boundaries = RegistrarBoundaries {
            top_level: ["com", "org"].into_iter().map(Box::from).collect(),
            ..RegistrarBoundaries::default()
        };
        let mut all = Vec::new();
        find_links(line.as_bytes(), &boundaries, |_, link| {
            all.push(String::from_utf8_lossy(link).into_owned());
        });
        all
    }

    #[test]
    fn links_are_found_as_mail_programs_find_them() {
        assert_eq!(
            links("see http://a.b/c?d, or www2.x.y. now"),
            ["http://a.b/c?d,", "www2.x.y."]
        );
        assert_eq!(
            links("<mailto:a@b.c> (x@y.z) u@v,w"),
            ["mailto:a@b.c", "x@y.z)", "u@v"]
        );
        assert_eq!(
            links("go to example.com/a or test.org. x.com:80 x.com, y.net"),
            ["example.com/a", "test.org.", "x.com:80"]
        );
        assert_eq!(links("a.b c:d e@"), Vec::<String>::new());
    }
}
