//! Parts that SMTP, LMTP and milter share: the listener's own name, the message that is judged,
//! and the Received field from which rules learn the client.

use std::fmt;

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Message, MessageId};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// The name of a listener: the configured one, otherwise the host's own.
pub(crate) fn own_name(set: &str, host: &str) -> String {
    if set.is_empty() { host } else { set }.to_owned()
}

/// The mail for those of its recipients that one scope judges; it has no topic yet.
pub(crate) fn message(envelope: &Envelope, recipients: Vec<String>, mail: Bytes) -> Message {
    let envelope = Envelope {
        recipients,
        ..envelope.clone()
    };
    Message::new(envelope, None, Format::Mail, mail)
}

/// The Received field that every server adds in front of a message (RFC 5321, section 4.4): it
/// records the path of the message, makes loops detectable, and is read by relay rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedField<'a> {
    /// The name that the client gave in HELO or EHLO.
    pub(crate) helo: Option<&'a str>,
    /// The client's name and address as this server knows them.
    pub(crate) client: &'a str,
    /// The receiving host and program.
    pub(crate) by: &'a str,
    pub(crate) program: &'static str,
    pub(crate) protocol: &'static str,
    /// The message's id, which contains its time.
    pub(crate) id: MessageId,
    /// The mail server's own name for it.
    pub(crate) queue_id: Option<&'a str>,
    /// The recipient; with more of them the field would show hidden ones to all (section 7.2). It
    /// is optional, and omitted unless it is plain.
    pub(crate) recipient: Option<&'a str>,
}

/// The field with its CR LF.
impl fmt::Display for ReceivedField<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            program,
            protocol,
            id,
            ..
        } = self;
        let helo = word(self.helo.unwrap_or_default());
        let by = word(self.by);
        write!(
            formatter,
            "Received: from {helo} ({client})\r\n\tby {by} ({program}) with {protocol} id "
        )?;
        match self.queue_id {
            Some(queue_id) => formatter.write_str(&word(queue_id))?,
            None => write!(formatter, "{id}")?,
        }
        if let Some(recipient) = self.recipient.filter(|address| is_plain_address(address)) {
            write!(formatter, "\r\n\tfor <{recipient}>")?;
        }
        let time = OffsetDateTime::from(id.time());
        let date = time.format(&Rfc2822).unwrap_or_default();
        write!(formatter, ";\r\n\t{date}\r\n")
    }
}

/// The name that a peer gave, as one word that cannot be confused with another part of the field.
///
/// Only characters of host names, address literals and message ids remain. Programs that read the
/// field search all of it for words such as `envelope-from=`, so that these must not come from the
/// peer; another character becomes `?`, which shows that the name is not valid.
pub(crate) fn word(text: &str) -> String {
    let is_apart =
        |character: char| !(character.is_ascii_alphanumeric() || ".-_:[]".contains(character));
    match text.trim() {
        "" => "unknown".to_owned(),
        name => name.replace(is_apart, "?"),
    }
}

/// Whether a recipient's address cannot be confused with another part of the field: a quoted local
/// part can contain any text, and one with `=` a parameter.
fn is_plain_address(address: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || "@.-_+".contains(character);
    address.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_forges_another_part_of_the_field() {
        let id = MessageId::next();
        let received = ReceivedField {
            helo: Some("[192.0.2.1](far.example [192.0.2.2])\r\n\tby us;"),
            client: "[192.0.2.3]",
            by: "mx.example",
            program: "Gatepost",
            protocol: "ESMTP",
            id,
            queue_id: None,
            recipient: Some("anna@example.org"),
        };
        let field = received.to_string();
        let (from, rest) = field.split_once("\r\n").expect("folded");
        assert_eq!(
            from,
            "Received: from [192.0.2.1]?far.example?[192.0.2.2]????by?us? ([192.0.2.3])"
        );
        let by = format!(
            "\tby mx.example (Gatepost) with ESMTP id {id}\r\n\tfor <anna@example.org>;\r\n\t"
        );
        assert!(rest.starts_with(&by), "{rest}");
        let nameless = ReceivedField {
            helo: Some(" "),
            queue_id: Some("Q1;"),
            recipient: None,
            ..received
        };
        let field = nameless.to_string();
        assert!(field.contains(" from unknown ("), "{field}");
        assert!(field.contains(" id Q1?;\r\n\t"), "{field}");
        for recipient in [
            "\"anna with ESMTPA y\"@example.org",
            "envelope-from=x@example.org",
        ] {
            let forged = ReceivedField {
                helo: Some("envelope-from=x@example.org"),
                recipient: Some(recipient),
                ..received
            };
            let field = forged.to_string();
            assert!(
                field.contains(" from envelope-from?x?example.org ("),
                "{field}"
            );
            assert!(!field.contains("for <"), "{field}");
        }
    }
}
