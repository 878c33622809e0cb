//! The selectors `:host`, `:domain`, `:ip` and `:revip`: a host, its registered domain or an IP
//! address, extracted from a field value.

use std::borrow::Cow;

use super::ascii::is_space;
use super::selector::{FieldPart, InnerPart};
use super::{HeaderSelector, Mail, domain, ip};

impl Mail<'_> {
    pub(super) fn inner_values<'b>(
        &self,
        selector: &HeaderSelector,
        values: Vec<Cow<'b, [u8]>>,
    ) -> Vec<Cow<'b, [u8]>> {
        match selector.inner {
            InnerPart::Whole => values,
            InnerPart::Host | InnerPart::Domain => {
                let hosts = values
                    .iter()
                    .filter_map(|value| self.host_in(value, selector.part == FieldPart::Address));
                let wanted = hosts.map(|host| match selector.inner {
                    InnerPart::Domain => self
                        .view_settings()
                        .boundaries
                        .registered(&String::from_utf8_lossy(&host).to_ascii_lowercase())
                        .into_bytes(),
                    _ => host,
                });
                wanted.map(Cow::Owned).collect()
            }
            InnerPart::Ip | InnerPart::ReverseIp => {
                let found = values.iter().filter_map(|value| {
                    let (start, end) = ip::find(value)?;
                    let text = value.get(start..end)?;
                    if selector.inner == InnerPart::Ip {
                        return Some(text.to_vec());
                    }
                    ip::parse(text).map(|address| ip::reversed(address).into_bytes())
                });
                found.map(Cow::Owned).collect()
            }
        }
    }

    /// The host an address or a text names.
    fn host_in(&self, value: &[u8], is_address: bool) -> Option<Vec<u8>> {
        if is_address {
            let sign = memchr::memrchr(b'@', value)?;
            let host = value.get(sign + 1..)?;
            let end = host
                .iter()
                .position(|&byte| is_space(byte))
                .unwrap_or(host.len());
            return host
                .get(..end)
                .filter(|host| !host.is_empty())
                .map(<[u8]>::to_vec);
        }
        let after_sign = memchr::memrchr(b'@', value).and_then(|sign| value.get(sign + 1..));
        let words = |text: &[u8]| -> Option<Vec<u8>> {
            text.split(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'-' | b'_'))
                .map(|word| word.strip_suffix(b".").unwrap_or(word))
                .find(|word| {
                    domain::is_fully_qualified(word)
                        && self
                            .view_settings()
                            .boundaries
                            .is_valid(&String::from_utf8_lossy(word).to_ascii_lowercase())
                })
                .map(<[u8]>::to_vec)
        };
        after_sign.and_then(words).or_else(|| words(value))
    }
}
