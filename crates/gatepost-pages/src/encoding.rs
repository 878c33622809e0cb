//! Content codings, and the negotiation with a client (RFC 9110, section 12.5.3).

/// A coding of precompressed files beside the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstandard,
    /// gzip.
    Gzip,
}

impl Encoding {
    /// The smallest first: it is chosen among codings with equal weights.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    /// The name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The extension of such files.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// The coding with the highest weight; `None` for no coding. `accept` is the client's
    /// `Accept-Encoding`; without this field it gets plain bytes, though the standard permits any
    /// coding.
    pub fn choose(accept: Option<&[u8]>, available: impl Iterator<Item = Self>) -> Option<Self> {
        let accept = accept?;
        let mut best = None;
        let plain = weight(accept, "identity").unwrap_or(0);
        let mut best_weight = plain.max(1);
        for encoding in available {
            let weight = weight(accept, encoding.name()).or_else(|| weight(accept, "*"));
            let weight = weight.unwrap_or(0);
            if weight > best_weight || (weight == best_weight && best.is_none()) {
                best = Some(encoding);
                best_weight = weight;
            }
        }
        best
    }
}

/// The weight of a coding in thousandths, if the field names it. A malformed weight counts as 0.
fn weight(accept: &[u8], name: &str) -> Option<u16> {
    accept.split(|&byte| byte == b',').find_map(|part| {
        let mut words = part.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        if !words.next()?.eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        let weight = words.find_map(|word| {
            let (key, value) = word.split_at_checked(2)?;
            key.eq_ignore_ascii_case(b"q=").then_some(value)
        });
        Some(weight.map_or(1_000, thousandths))
    })
}

/// `0.5` is 500 (RFC 9110, section 12.4.2).
fn thousandths(text: &[u8]) -> u16 {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse::<f32>().ok());
    number.map_or(0, |number| (number.clamp(0.0, 1.0) * 1_000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_its_preferred_coding() {
        use Encoding::{Brotli, Gzip, Zstandard};
        for (accept, expected) in [
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("gzip, zstd", Some(Zstandard)),
            ("gzip;q=1.0, br;q=0.5", Some(Gzip)),
            ("GZIP; Q=0.2", Some(Gzip)),
            ("*", Some(Brotli)),
            ("br;q=0, *;q=0.1", Some(Zstandard)),
            ("identity", None),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("gzip;q=0", None),
            ("gzip;q=nonsense", None),
            ("gzipped", None),
            ("", None),
            ("identity;q=0", None),
        ] {
            let chosen = Encoding::choose(Some(accept.as_bytes()), Encoding::ALL.into_iter());
            assert_eq!(chosen, expected, "{accept}");
        }
        assert_eq!(Encoding::choose(None, Encoding::ALL.into_iter()), None);
        let accept = Some(&b"br, gzip"[..]);
        assert_eq!(Encoding::choose(accept, [Gzip].into_iter()), Some(Gzip));
    }
}
