//! The lines that OpenSMTPD sends to a filter: fields separated by bars (smtpd-filters(7)).
//!
//! `report|VERSION|TIME|smtp-in|EVENT|SESSION|…` is a report,
//! `filter|VERSION|TIME|smtp-in|PHASE|SESSION| TOKEN|…` is a request. Versions before 0.6 put the
//! result of a report after its subject. A client chooses names and addresses, so the order follows
//! from the version and not from the fields: a user may be called `pass`.

use std::net::SocketAddr;

use crate::envelope::ReportedEnvelope;

/// The first version that puts the result of a report before its subject.
const RESULT_FIRST_SINCE: (u32, u32) = (0, 6);

/// The order of the result of a report and its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultOrder {
    First,
    Last,
}

impl ResultOrder {
    /// The order in this version of the protocol; a version that is not understood counts as a
    /// later one.
    fn of_version(version: &[u8]) -> Self {
        let numbers = std::str::from_utf8(version).ok();
        let numbers = numbers.and_then(|version| version.split_once('.'));
        let numbers = numbers.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
        if numbers.is_some_and(|version: (u32, u32)| version < RESULT_FIRST_SINCE) {
            Self::Last
        } else {
            Self::First
        }
    }

    /// The subject of a report with this result; `None` if its result is another.
    fn subject<'line>(self, fields: &'line [u8], result: &[u8]) -> Option<&'line [u8]> {
        match self {
            Self::First => fields.strip_prefix(result)?.strip_prefix(b"|"),
            Self::Last => fields.strip_suffix(result)?.strip_suffix(b"|"),
        }
    }
}

/// A line that the filter handles.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterEvent<'line> {
    /// The filter must list the events that it subscribes to.
    Ready,
    /// An event in a session.
    Report {
        name: &'line [u8],
        session: &'line [u8],
        rest: &'line [u8],
        order: ResultOrder,
    },
    /// A line of a message, with the leading dot doubled as on the wire; smtpd holds it back until
    /// it is returned.
    Line {
        session: &'line [u8],
        token: &'line [u8],
        line: &'line [u8],
    },
    /// The request to decide on the message.
    Commit {
        session: &'line [u8],
        token: &'line [u8],
    },
    /// Any other line.
    Other,
}

impl<'line> FilterEvent<'line> {
    /// Parses a line without its end.
    pub(super) fn parse(line: &'line [u8]) -> Self {
        if line == b"config|ready" {
            return Self::Ready;
        }
        let mut fields = line.splitn(7, |&byte| byte == b'|');
        let mut next = || fields.next().unwrap_or_default();
        let (kind, version, _time, _direction) = (next(), next(), next(), next());
        let (name, session, rest) = (next(), next(), next());
        match (kind, name) {
            (b"report", _) => Self::Report {
                name,
                session,
                rest,
                order: ResultOrder::of_version(version),
            },
            (b"filter", b"data-line") => {
                let (token, line) = split(rest);
                Self::Line {
                    session,
                    token,
                    line,
                }
            }
            (b"filter", b"commit") => Self::Commit {
                session,
                token: split(rest).0,
            },
            _ => Self::Other,
        }
    }
}

/// The text before the first bar, and the text after it.
fn split(fields: &[u8]) -> (&[u8], &[u8]) {
    match fields.iter().position(|&byte| byte == b'|') {
        Some(at) => (
            fields.get(..at).unwrap_or_default(),
            fields.get(at + 1..).unwrap_or_default(),
        ),
        None => (fields, b""),
    }
}

/// Adds the content of a report to the envelope.
pub(super) fn learn(envelope: &mut ReportedEnvelope, name: &[u8], rest: &[u8], order: ResultOrder) {
    match name {
        b"link-connect" => envelope.address = source(rest),
        b"link-identify" => {
            // METHOD|NAME; in older versions the name alone.
            let methods = [&b"HELO|"[..], b"EHLO|"];
            let name = methods.iter().find_map(|method| rest.strip_prefix(*method));
            envelope.client = Some(name.unwrap_or(rest).to_vec());
        }
        b"link-auth" => {
            if let Some(user) = order.subject(rest, b"pass") {
                envelope.user = Some(user.to_vec());
            }
        }
        b"tx-begin" | b"tx-reset" | b"tx-rollback" | b"tx-commit" => {
            envelope.sender = None;
            envelope.recipients.clear();
        }
        b"tx-mail" => envelope.sender = accepted(rest, order).or(envelope.sender.take()),
        b"tx-rcpt" => envelope.recipients.extend(accepted(rest, order)),
        _ => {}
    }
}

/// `RDNS|FCRDNS|SOURCE|DESTINATION`: the address of the source, if it has one.
fn source(rest: &[u8]) -> Option<std::net::IpAddr> {
    let source = rest.split(|&byte| byte == b'|').nth(2)?;
    let source: SocketAddr = std::str::from_utf8(source).ok()?.parse().ok()?;
    Some(source.ip())
}

/// `MESSAGE|ok|ADDRESS` or `MESSAGE|ADDRESS|ok`: the address, if it was accepted.
fn accepted(rest: &[u8], order: ResultOrder) -> Option<Vec<u8>> {
    let (_message, fields) = split(rest);
    order.subject(fields, b"ok").map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn envelope_of(reports: &[&str]) -> ReportedEnvelope {
        let mut envelope = ReportedEnvelope::default();
        for report in reports {
            match FilterEvent::parse(report.as_bytes()) {
                FilterEvent::Report {
                    name, rest, order, ..
                } => learn(&mut envelope, name, rest, order),
                other => panic!("{report}: {other:?}"),
            }
        }
        envelope
    }

    #[test]
    fn the_envelope_is_gathered_in_both_orders() {
        let new = envelope_of(&[
            "report|0.6|1.2|smtp-in|link-connect|s1|host.example|pass|192.0.2.9:33174|192.0.2.1:25",
            "report|0.6|1.2|smtp-in|link-identify|s1|EHLO|client.example",
            "report|0.6|1.2|smtp-in|link-auth|s1|pass|anna",
            "report|0.6|1.2|smtp-in|tx-begin|s1|m1",
            "report|0.6|1.2|smtp-in|tx-mail|s1|m1|ok|a|b@client.example",
            "report|0.6|1.2|smtp-in|tx-rcpt|s1|m1|permfail|no@mx.example",
            "report|0.6|1.2|smtp-in|tx-rcpt|s1|m1|ok|b@mx.example",
        ]);
        let old = envelope_of(&[
            "report|0.5|1.2|smtp-in|link-connect|s1|host.example|pass|192.0.2.9:33174|192.0.2.1:25",
            "report|0.5|1.2|smtp-in|link-identify|s1|client.example",
            "report|0.5|1.2|smtp-in|link-auth|s1|anna|pass",
            "report|0.5|1.2|smtp-in|tx-mail|s1|m1|a|b@client.example|ok",
            "report|0.5|1.2|smtp-in|tx-rcpt|s1|m1|b@mx.example|ok",
        ]);
        let expected = ReportedEnvelope {
            sender: Some(b"a|b@client.example".to_vec()),
            client: Some(b"client.example".to_vec()),
            address: "192.0.2.9".parse().ok(),
            user: Some(b"anna".to_vec()),
            recipients: vec![b"b@mx.example".to_vec()],
        };
        assert_eq!(new, expected);
        assert_eq!(old, expected);
        let next = envelope_of(&[
            "report|0.6|1.2|smtp-in|link-connect|s1|local|pass|unix:/run/smtpd.sock|\
             unix:/run/smtpd.sock",
            "report|0.6|1.2|smtp-in|link-auth|s1|fail|anna",
            "report|0.6|1.2|smtp-in|tx-mail|s1|m1|ok|a@client.example",
            "report|0.6|1.2|smtp-in|tx-reset|s1|m1",
        ]);
        assert_eq!(next, ReportedEnvelope::default());
    }

    #[test]
    fn no_name_and_no_address_is_taken_for_a_result() {
        let unknown = envelope_of(&[
            "report|0.7|1.2|smtp-in|link-auth|s1|fail|pass",
            "report|0.7|1.2|smtp-in|link-auth|s1|error|pass",
            "report|0.5|1.2|smtp-in|link-auth|s1|pass|fail",
            "report|0.7|1.2|smtp-in|tx-mail|s1|m1|permfail|a|ok",
            "report|0.7|1.2|smtp-in|tx-rcpt|s1|m1|tempfail|b|ok",
            "report|0.5|1.2|smtp-in|tx-rcpt|s1|m1|ok|b|permfail",
        ]);
        assert_eq!(unknown, ReportedEnvelope::default());
        let known = envelope_of(&[
            "report|1.0|1.2|smtp-in|link-identify|s1|HELO|a|b",
            "report|1.0|1.2|smtp-in|link-auth|s1|pass|a|pass",
        ]);
        assert_eq!(known.client.as_deref(), Some(&b"a|b"[..]));
        assert_eq!(known.user.as_deref(), Some(&b"a|pass"[..]));
    }

    #[test]
    fn a_line_may_hold_bars() {
        let event = FilterEvent::parse(b"filter|0.7|1.2|smtp-in|data-line|s1|t1|a|b|\xff");
        let expected = FilterEvent::Line {
            session: b"s1",
            token: b"t1",
            line: b"a|b|\xff",
        };
        assert_eq!(event, expected);
        let event = FilterEvent::parse(b"filter|0.7|1.2|smtp-in|commit|s1|t1");
        let expected = FilterEvent::Commit {
            session: b"s1",
            token: b"t1",
        };
        assert_eq!(event, expected);
    }

    proptest! {
        #[test]
        fn no_line_panics(kind in "(report|filter|config)?", rest: Vec<u8>) {
            let line = [kind.as_bytes(), b"|", &rest].concat();
            if let FilterEvent::Report { name, rest, order, .. } = FilterEvent::parse(&line) {
                learn(&mut ReportedEnvelope::default(), name, rest, order);
            }
        }
    }
}
