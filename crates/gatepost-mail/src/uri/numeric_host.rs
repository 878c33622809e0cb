//! Hosts in numeric notations that browsers accept and people do not recognise.

use crate::ascii::starts_with_ignore_case;

/// `0x7f000001`.
pub(super) fn is_hexadecimal_number(host: &[u8]) -> bool {
    starts_with_ignore_case(host, b"0x")
        && host.len() > 2
        && host.iter().skip(2).all(u8::is_ascii_hexdigit)
}

/// A host that is an address in another notation: octal, hexadecimal, or one number.
pub(super) fn numeric_host(host: &[u8]) -> Option<String> {
    let octets: smallvec::SmallVec<[&[u8]; 5]> = host.split(|&byte| byte == b'.').take(5).collect();
    if let [_, _, _, _] = octets[..] {
        let numbers: Option<Vec<String>> = octets.iter().map(|octet| octet_text(octet)).collect();
        return numbers.map(|numbers| numbers.join("."));
    }
    let number = if is_hexadecimal_number(host) {
        let digits = host.get(host.len().saturating_sub(8).max(2)..)?;
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
    } else if !host.is_empty() && host.iter().all(u8::is_ascii_digit) {
        std::str::from_utf8(host)
            .ok()?
            .parse::<u64>()
            .unwrap_or(u64::MAX)
    } else {
        return None;
    };
    // Of a number that is too large, the leading digits count.
    let digits = format!("{number:08x}");
    let [a, b, c, d] = u32::from_str_radix(digits.get(..8)?, 16)
        .ok()?
        .to_be_bytes();
    Some(format!("{a}.{b}.{c}.{d}"))
}

fn octet_text(octet: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(octet).ok()?;
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let digits = digits.trim_start_matches('0');
        if octet.len() == 2 || !octet.iter().skip(2).all(u8::is_ascii_hexdigit) {
            return None;
        }
        let value = u128::from_str_radix(digits, 16).unwrap_or(0);
        return Some(if value == 0 {
            String::new()
        } else {
            value.to_string()
        });
    }
    if text.is_empty() || !octet.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    let octal = digits.len() < text.len()
        && match digits.as_bytes() {
            [b'1'..=b'3', rest @ ..] => {
                rest.len() <= 2 && rest.iter().all(|byte| (b'0'..=b'7').contains(byte))
            }
            [b'4'..=b'7', rest @ ..] => {
                rest.len() <= 1 && rest.iter().all(|byte| (b'0'..=b'7').contains(byte))
            }
            _ => false,
        };
    if octal {
        return Some(u32::from_str_radix(digits, 8).unwrap_or(0).to_string());
    }
    Some(digits.to_owned())
}
