//! The `Received:` field that Gatepost itself writes, for SMTP, LMTP and milter.
//!
//! Other servers' fields are searched for what they record, since their formats vary. The client
//! chooses some words of a field, and such a search takes them for the server's: a HELO name
//! `envelope-from=anna@example.org` for the envelope sender, a name of a well-known server for the
//! name of the field's own. The format of this field is known, so that each value is read in its
//! place only, and what the field does not record stays empty.

use super::{Relay, without_odd_characters};
use crate::ip;

/// The meaning of a line in this format.
#[derive(Debug)]
pub(super) enum OwnLine {
    Relay(Box<Relay>),
    /// The mail came over a Unix socket.
    Local,
}

/// Reads a line in this format, without its date and with single blanks; `None` if it has another.
///
/// ```text
/// from HELO ([ADDRESS]) by NAME (Gatepost) with ESMTP id ID for <RECIPIENT>
/// from HELO (NAME [ADDRESS]) by NAME (Gatepost milter) with ESMTP id ID
/// from HELO (localhost) by NAME (Gatepost) with LMTP id ID
/// ```
pub(super) fn read_own_line(line: &str) -> Option<OwnLine> {
    let (helo, rest) = line.strip_prefix("from ")?.split_once(" (")?;
    let (client, rest) = rest.split_once(") by ")?;
    let (by, rest) = rest.split_once(" (")?;
    let (program, rest) = rest.split_once(") with ")?;
    if !matches!(program, "Gatepost" | "Gatepost milter") {
        return None;
    }
    let (protocol, rest) = rest.split_once(" id ")?;
    let (id, recipient) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_recipient = recipient.is_empty()
        || recipient.starts_with("for <") && recipient.split(' ').nth(2).is_none();
    if ![helo, by, protocol, id].into_iter().all(is_word) || !is_recipient {
        return None;
    }
    if client == "localhost" {
        return Some(OwnLine::Local);
    }
    let (name, address) = match client.split_once(' ') {
        Some((name, address)) => (Some(name), address),
        None => (None, client),
    };
    let address = address.strip_prefix('[')?.strip_suffix(']')?;
    let address = ip::parse(address.as_bytes())?.to_canonical();
    // Only a mail server with a milter looks up the client's name; it writes `unknown` if there
    // is none.
    let rdns = name.filter(|name| !name.eq_ignore_ascii_case("unknown"));
    // RFC 3848: the protocol's name says whether the client has logged in.
    let auth = if protocol.ends_with('A') {
        protocol
    } else {
        ""
    };
    Some(OwnLine::Relay(Box::new(Relay {
        ip: address.to_string(),
        rdns: without_odd_characters(rdns.unwrap_or_default().trim_end_matches('.')),
        helo: without_odd_characters(helo),
        by: without_odd_characters(by),
        id: id.to_owned(),
        auth: auth.to_owned(),
        ip_private: ip::is_private(address),
        no_reverse_dns: name.is_some() && rdns.is_none(),
        ..Relay::default()
    })))
}

/// A word that cannot extend over another part of the field.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '(', ')', '<', '>'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(line: &str) -> Relay {
        match read_own_line(line) {
            Some(OwnLine::Relay(relay)) => *relay,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_value_is_read_in_its_place() {
        let line = "from pc.example ([IPv6:2001:db8::1]) by mx.example (Gatepost) with ESMTPSA \
                    id 0abc for <anna@example.org>";
        let submission = relay(line);
        let expected = Relay {
            ip: "2001:db8::1".to_owned(),
            helo: "pc.example".to_owned(),
            by: "mx.example".to_owned(),
            id: "0abc".to_owned(),
            auth: "ESMTPSA".to_owned(),
            ..Relay::default()
        };
        assert_eq!(
            Relay {
                ip_private: false,
                ..submission
            },
            expected
        );
        let milter = "from pc (far.example [192.0.2.1]) by mx (Gatepost milter) with ESMTP id Q1";
        let milter = relay(milter);
        assert_eq!(
            (milter.rdns.as_str(), milter.no_reverse_dns),
            ("far.example", false)
        );
        let nameless = "from pc (unknown [192.0.2.1]) by mx (Gatepost milter) with ESMTP id Q1";
        let nameless = relay(nameless);
        assert_eq!(
            (nameless.rdns.as_str(), nameless.no_reverse_dns),
            ("", true)
        );
        let local = "from pc (localhost) by mx (Gatepost) with LMTP id 0abc";
        assert!(matches!(read_own_line(local), Some(OwnLine::Local)));
    }
}
