//! The Received field of mail that SMTP and LMTP receive.

use gatepost_message::{MessageId, Peer};

use super::session::SmtpSession;
use super::transaction::Transaction;
use crate::mail::ReceivedField;

/// The field, with its CR LF.
pub(super) fn received_field(
    hostname: &str,
    session: &SmtpSession<'_>,
    transaction: &Transaction,
    id: MessageId,
) -> String {
    let client = match session.peer() {
        Peer::Address(address) if address.is_ipv6() => format!("[IPv6:{}]", address.ip()),
        Peer::Address(address) => format!("[{}]", address.ip()),
        Peer::Local => "localhost".to_owned(),
    };
    let recipient = match &transaction.to[..] {
        [only] => Some(only.mailbox.address.as_str()),
        _ => None,
    };
    let received = ReceivedField {
        helo: session.helo(),
        client: &client,
        by: hostname,
        program: "Gatepost",
        protocol: session.protocol(transaction.utf8),
        id,
        queue_id: None,
        recipient,
    };
    received.to_string()
}
