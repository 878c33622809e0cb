//! The Received field that every server adds in front of a message (RFC 5321 § 4.4): it shows the
//! way, lets loops be noticed, and is what relay rules read.

use gatepost_message::{MessageId, Peer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::session::Session;
use super::transaction::Transaction;

/// The field, with its CR LF.
pub(super) fn received_field(
    hostname: &str,
    session: &Session<'_>,
    transaction: &Transaction,
    id: MessageId,
) -> String {
    let name = session.helo().unwrap_or("unknown");
    let address = match session.peer() {
        Peer::Address(address) if address.is_ipv6() => format!("[IPv6:{}]", address.ip()),
        Peer::Address(address) => format!("[{}]", address.ip()),
        Peer::Local => "localhost".to_owned(),
    };
    let protocol = session.protocol(transaction.utf8);
    // With more recipients the field would show hidden ones to all (§ 7.2).
    let recipient = match &transaction.to[..] {
        [only] => format!("\r\n\tfor <{}>", only.mailbox.address),
        _ => String::new(),
    };
    let date = OffsetDateTime::from(id.time())
        .format(&Rfc2822)
        .unwrap_or_default();
    format!(
        "Received: from {name} ({address})\r\n\tby {hostname} (Gatepost) with {protocol} id {id}{recipient};\r\n\t{date}\r\n"
    )
}
