//! Lists of `name=value` pairs, RFC 6376, section 3.2.

/// The most pairs of a list. The standards define 13; each further one is compared with all before.
const TAGS_MAX: usize = 100;

/// The pairs of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tags<'t>(Vec<(&'t [u8], &'t [u8])>);

impl<'t> Tags<'t> {
    /// Parses a list; `None` if it is malformed, too long, or repeats a name.
    pub(crate) fn parse(text: &'t [u8]) -> Option<Self> {
        let mut tags: Vec<(&[u8], &[u8])> = Vec::new();
        for pair in text.split(|&byte| byte == b';') {
            let pair = pair.trim_ascii();
            if pair.is_empty() {
                continue;
            }
            let equals = memchr::memchr(b'=', pair)?;
            let (name, value) = pair.split_at(equals);
            let name = name.trim_ascii_end();
            let is_name = name
                .iter()
                .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if name.is_empty() || !is_name || tags.len() == TAGS_MAX {
                return None;
            }
            // Section 3.2: a list with a repeated name is invalid.
            if tags.iter().any(|(known, _)| *known == name) {
                return None;
            }
            tags.push((name, value.get(1..)?.trim_ascii()));
        }
        Some(Self(tags))
    }

    /// The original value.
    pub(crate) fn raw(&self, name: &str) -> Option<&'t [u8]> {
        let find =
            |(known, value): &(&[u8], &'t [u8])| (*known == name.as_bytes()).then_some(*value);
        self.0.iter().find_map(find)
    }

    /// A value without white space, which folding may have added.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let value = self.raw(name)?;
        let kept: Vec<u8> = value
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        Some(String::from_utf8_lossy(&kept).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read() {
        let tags = Tags::parse(b" v = 1; h=From :\r\n To ; b=ab\r\n\tcd==;").unwrap();
        assert_eq!(tags.text("v").as_deref(), Some("1"));
        assert_eq!(tags.text("h").as_deref(), Some("From:To"));
        assert_eq!(tags.raw("b"), Some(&b"ab\r\n\tcd=="[..]));
        assert!(Tags::parse(b"v=1; v=2").is_none() && Tags::parse(b"nothing").is_none());
    }

    #[test]
    fn a_list_of_too_many_pairs_is_refused() {
        let list = |count: usize| -> String {
            let pairs: Vec<String> = (0..count).map(|number| format!("a{number}=1")).collect();
            pairs.join(";")
        };
        assert!(Tags::parse(list(TAGS_MAX).as_bytes()).is_some());
        assert!(Tags::parse(list(TAGS_MAX + 1).as_bytes()).is_none());
    }
}
