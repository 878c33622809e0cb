//! The sender of a message, in the terms of AWL and TxRep.

use gatepost_mail::{HeaderSelector, Mail, Relay};

/// The sender of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The address of `From`, or else of the envelope, in lower case; empty if there is neither.
    pub address: String,
    /// Whether `From` itself contains an address. AWL uses only that one.
    pub from_field: bool,
    /// The public address from which the message was first received, for AWL.
    pub first_public_ip: Option<String>,
    /// The relays with address, whether the address is private, and name, from the last, which
    /// delivered the message here, to the first; so the trusted ones precede the others.
    pub relays: Vec<(String, bool, String)>,
    /// The number of trusted relays.
    pub trusted: usize,
    /// The recipients in lower case, if the message comes from an internal network.
    pub recipients: Vec<String>,
    /// An id made of the message's content.
    pub message_id: Vec<u8>,
}

/// All recipient addresses of a message.
fn recipients(mail: &Mail<'_>) -> Vec<String> {
    let addresses = mail.recipient_addresses().iter();
    let lower = addresses.map(|address| String::from_utf8_lossy(address).to_lowercase());
    lower.filter(|address| !address.is_empty()).collect()
}

impl Sender {
    /// The sender of `mail`, whose generated id is `message_id`.
    pub fn of(mail: &Mail<'_>, message_id: &[u8]) -> Self {
        let address = |selector: &str| {
            let value = mail.header(&HeaderSelector::parse(selector))?;
            let text = String::from_utf8_lossy(&value).trim().to_lowercase();
            (!text.is_empty()).then_some(text)
        };
        let from = address("From:addr");
        let from_field = from.is_some();
        let relays = mail.relays();
        let fact = |relay: &Relay| (relay.ip.clone(), relay.ip_private, relay.helo.clone());
        let all: Vec<_> = relays
            .trusted
            .iter()
            .chain(&relays.untrusted)
            .map(fact)
            .collect();
        Self {
            address: from
                .or_else(|| address("EnvelopeFrom:addr"))
                .unwrap_or_default(),
            from_field,
            first_public_ip: all
                .iter()
                .rev()
                .find(|(ip, is_private, _)| !is_private && !ip.is_empty())
                .map(|(ip, ..)| ip.clone()),
            recipients: if relays.external.is_empty() && !relays.internal.is_empty() {
                recipients(mail)
            } else {
                Vec::new()
            },
            trusted: relays.trusted.len(),
            relays: all,
            message_id: message_id.to_vec(),
        }
    }

    /// The domain of the address.
    pub(super) fn domain(&self) -> &str {
        self.address
            .rsplit_once('@')
            .map_or(self.address.as_str(), |(_, domain)| domain)
    }
}
