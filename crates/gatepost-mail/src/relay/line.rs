//! One `Received:` line, converted to a [`Relay`].

use std::sync::LazyLock;

use super::authentication::authentication;
use super::gatepost::{OwnLine, read_own_line};
use super::received_format::{ReceivedValues, TemplateMeaning, find_format, find_uppercase_format};
use super::{Relay, without_odd_characters};
use crate::ip;
use crate::pattern::MailPattern;

/// The meaning of a line.
#[derive(Debug)]
pub(super) enum ReceivedLine {
    /// A hop from one host to another.
    Relay(Box<Relay>),
    /// A step inside one machine, or without an address: ignored.
    Skipped,
    /// A scanner's note, with the envelope sender of the next hop.
    Scanner(Option<String>),
    /// A program fetched the mail from a mailbox.
    Fetched,
    /// The line has no known form.
    Unparseable,
}

struct LinePatterns {
    plain_hop: MailPattern,
    date: MailPattern,
    id: MailPattern,
    helo_parameter: MailPattern,
    helo_word: MailPattern,
    by: MailPattern,
    envelope_from: MailPattern,
    guess_helo: MailPattern,
}

static PATTERNS: LazyLock<LinePatterns> = LazyLock::new(|| {
    let compile = |pattern: &str, flags: &str| {
        MailPattern::with_flags(pattern, flags)
            .unwrap_or_else(|error| unreachable!("built-in pattern: {error}"))
    };
    // Characters permitted in the name that a server gives itself.
    let name = r"[-A-Za-z0-9.^+_&:=?!@%*$\\/]";
    let not_name = r"[^-A-Za-z0-9.^+_&:=?!@%*$\\/]";
    LinePatterns {
        plain_hop: compile(r"^from (\S+) by [^\s;]+ ?;", "i"),
        date: compile(
            concat!(
                r"[\s;]+(?:(?:Mon|Tue|Thu|Wed|Fri|Sat|Sun), )?\d+ (?:Jan|Jun|Jul|Feb|Mar|May|Apr",
                r"|Aug|Sep|Oct|Nov|Dec) \d+ \d+:\d+(?::\d+)? \S+$",
            ),
            "",
        ),
        id: compile(r" id <?([^\s<>;]{3,})", ""),
        helo_parameter: compile(&format!(r"\bhelo=({name}+)(?:{not_name}|$)"), ""),
        helo_word: compile(&format!(r"\b(?:HELO|EHLO) ({name}+)(?:{not_name}|$)"), ""),
        by: compile(r" by (\S+)(?:[^-A-Za-z0-9;.]|$)", ""),
        envelope_from: compile(
            r"(?:return-path:? |envelope-(?:sender|from)[ =])(\S+)\b",
            "i",
        ),
        guess_helo: compile(r"^(\S+)[^-A-Za-z0-9.]", ""),
    }
});

fn group(pattern: &MailPattern, text: &str) -> Option<String> {
    pattern
        .group(text.as_bytes(), 1)
        .map(|found| String::from_utf8_lossy(found).into_owned())
}

/// Parses a line.
pub(super) fn read_line(line: &str) -> ReceivedLine {
    let patterns = &*PATTERNS;
    let mut line = line.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    while let Some(shorter) = line.strip_suffix(';') {
        let length = shorter.strip_suffix(' ').unwrap_or(shorter).len();
        line.truncate(length);
    }
    if names_no_relay(&line) {
        return ReceivedLine::Skipped;
    }
    let date = patterns.date.spans(line.as_bytes()).next();
    if let Some((start, _)) = date {
        line.truncate(start);
    }
    match read_own_line(&line) {
        Some(OwnLine::Relay(relay)) => return ReceivedLine::Relay(relay),
        Some(OwnLine::Local) => return ReceivedLine::Skipped,
        None => {}
    }
    if let Some(at) = line.find(")by ") {
        line.insert(at + 1, ' ');
    }
    let mut found = ReceivedValues {
        id: group(&patterns.id, &line).unwrap_or_default(),
        helo: group(&patterns.helo_parameter, &line)
            .or_else(|| group(&patterns.helo_word, &line))
            .unwrap_or_default(),
        by: group(&patterns.by, &line).unwrap_or_default(),
        ..ReceivedValues::default()
    };
    let auth = authentication(&line);
    let outcome = if let Some(rest) = line.strip_prefix("from ") {
        found.envelope_from = group(&patterns.envelope_from, rest);
        let outcome = find_format(rest, &mut found);
        if outcome == TemplateMeaning::Unknown && found.helo.is_empty() {
            found.helo = group(&patterns.guess_helo, rest).unwrap_or_default();
        }
        outcome
    } else {
        find_uppercase_format(&line, &mut found)
    };
    match outcome {
        TemplateMeaning::Relay => {}
        TemplateMeaning::Skip => return ReceivedLine::Skipped,
        TemplateMeaning::Fetched => return ReceivedLine::Fetched,
        TemplateMeaning::Scanner => {
            return ReceivedLine::Scanner(found.envelope_from.as_deref().map(tidy_envelope_from));
        }
        TemplateMeaning::Unknown => {
            if found.ip.is_empty() {
                found.ip = bracketed_address(&line).unwrap_or_default();
            }
            if found.ip.is_empty() || found.by.is_empty() {
                return ReceivedLine::Unparseable;
            }
        }
    }
    ReceivedLine::Relay(Box::new(finish(found, auth)))
}

/// Whether the line is of a kind that SpamAssassin skips: it does not begin with `from`, describes
/// a local delivery, or names neither a host nor an address.
fn names_no_relay(line: &str) -> bool {
    let lower_start = line
        .get(..6)
        .map(str::to_ascii_lowercase)
        .unwrap_or_default();
    let is_from = lower_start.starts_with("from ") || lower_start == "(from ";
    let is_local = line
        .match_indices(" with local for")
        .any(|(at, text)| ends_word(line, at + text.len()));
    if !is_from || is_local {
        return true;
    }
    let is_address_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    group(&PATTERNS.plain_hop, line).is_some_and(|sender| {
        let bracketed = sender
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'));
        !bracketed.is_some_and(|inner| !inner.is_empty() && inner.bytes().all(is_address_part))
    })
}

fn ends_word(text: &str, at: usize) -> bool {
    !text
        .as_bytes()
        .get(at)
        .copied()
        .is_some_and(crate::ascii::is_word)
}

/// The first address in square brackets.
fn bracketed_address(line: &str) -> Option<String> {
    line.match_indices('[').find_map(|(open, _)| {
        let rest = line.get(open + 1..)?;
        let inner = rest.get(..rest.find(']')?)?;
        ip::is_ip(inner.as_bytes()).then(|| inner.to_owned())
    })
}

fn tidy_envelope_from(text: &str) -> String {
    let text = text
        .trim_start()
        .trim_start_matches('<')
        .trim_end()
        .trim_end_matches('>');
    without_odd_characters(text)
}

/// The address alone: no `IPv6:`, no brackets, no zone (RFC 4007), no mapping of IPv4.
fn tidy_ip(text: &str) -> String {
    let text = if text
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("ipv6:"))
    {
        text.get(5..).unwrap_or_default()
    } else {
        text
    };
    let text = text.strip_prefix('[').unwrap_or(text);
    let text = text.strip_suffix(']').unwrap_or(text);
    let text = text.split('%').next().unwrap_or_default();
    let lower = text.to_ascii_lowercase();
    let mapped = lower.rsplit_once("ffff:").filter(|(before, address)| {
        before.ends_with(':')
            && before.matches(':').count() >= 2
            && before.bytes().all(|byte| matches!(byte, b'0' | b':'))
            && ip::parse_v4(address.as_bytes()).is_some()
    });
    without_odd_characters(mapped.map_or(text, |(_, address)| address))
}

fn finish(found: ReceivedValues, auth: String) -> Relay {
    let mut rdns = found.rdns.trim_end_matches('.').to_owned();
    if rdns.eq_ignore_ascii_case("unknown") || rdns.starts_with('[') {
        rdns.clear();
    }
    let ip = tidy_ip(&found.ip);
    let address = ip::parse(ip.as_bytes());
    Relay {
        rdns: without_odd_characters(&rdns),
        helo: without_odd_characters(&found.helo),
        by: without_odd_characters(found.by.strip_suffix(';').unwrap_or(&found.by)),
        ident: without_odd_characters(&found.ident),
        envelope_from: found.envelope_from.as_deref().map(tidy_envelope_from),
        id: found.id,
        auth,
        ip_private: address.is_some_and(ip::is_private),
        no_reverse_dns: rdns.is_empty() && found.looked_up,
        internal: false,
        submission: false,
        ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_helo_name_forges_another_value() {
        for helo in [
            "envelope-from=anna@author.example",
            "return-path:",
            "helo=other.example",
            "Exim.author.example",
            "ecelerity",
            "[192.0.2.9]",
        ] {
            let line = format!(
                "from {helo} ([198.51.100.1])\r\n\tby mx.example (Gatepost) with ESMTP id 0abc;\
                 \r\n\tSat, 21 Nov 2026 04:00:00 +0000"
            );
            let ReceivedLine::Relay(relay) = read_line(&line) else {
                panic!("{line}");
            };
            assert_eq!(relay.ip, "198.51.100.1", "{helo}");
            assert_eq!(relay.helo, without_odd_characters(helo), "{helo}");
            assert_eq!(relay.envelope_from, None, "{helo}");
            let others = [relay.rdns, relay.ident, relay.auth].concat();
            assert_eq!(others, "", "{helo}");
        }
    }
}
