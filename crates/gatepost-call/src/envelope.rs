//! Metadata of a message: sender, client and recipients.

use std::net::IpAddr;

use crate::wire::RequestBytes;

/// Metadata reported by a mail server; a plain file has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReportedEnvelope {
    /// The reverse path without brackets; empty is the null path.
    pub(crate) sender: Option<Vec<u8>>,
    /// The name that the sending host gave for itself.
    pub(crate) client: Option<Vec<u8>>,
    /// The sending host's address.
    pub(crate) address: Option<IpAddr>,
    /// The user that logged in to send it.
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) recipients: Vec<Vec<u8>>,
}

impl ReportedEnvelope {
    /// Adds a field for each known value.
    pub(crate) fn write(&self, request: &mut RequestBytes) {
        let known = [
            ("sender", &self.sender),
            ("client", &self.client),
            ("user", &self.user),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                request.field(name, value);
            }
        }
        if let Some(address) = &self.address {
            request.field("address", address.to_string().as_bytes());
        }
        for recipient in &self.recipients {
            request.field("recipient", recipient);
        }
    }
}
