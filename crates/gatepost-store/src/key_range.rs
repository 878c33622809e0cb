//! Records by the beginning of their keys: a range of the table's key, so that SQLite reads no
//! record outside it.

/// The end of the keys that begin with `prefix`: they are those from `prefix` up to it, which is
/// not one of them. `None` if all keys from `prefix` on begin with it.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys of up to three of these bytes.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![Vec::new()];
        let mut start = 0;
        for _ in 0..3 {
            let end = keys.len();
            for place in start..end {
                keys.extend([0, b'a', 254, 255].map(|byte| [&keys[place][..], &[byte]].concat()));
            }
            start = end;
        }
        keys
    }

    #[test]
    fn the_keys_of_the_range_are_those_that_begin_with_the_prefix() {
        let keys = keys();
        assert_eq!(keys.len(), 1 + 4 + 16 + 64);
        for prefix in &keys {
            let end = end_of_prefix(prefix);
            for key in &keys {
                let is_within = key >= prefix && end.as_ref().is_none_or(|end| key < end);
                assert_eq!(is_within, key.starts_with(prefix), "{key:?}, {prefix:?}");
            }
        }
    }
}
