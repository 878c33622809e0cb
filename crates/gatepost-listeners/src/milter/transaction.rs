//! The part of a message that has arrived so far, and its client. No more of it is held than the
//! limits allow.

use std::net::{IpAddr, SocketAddr};

use gatepost_message::Peer;

use super::negotiation::{NegotiatedOptions, step};
use super::packet::{self, MilterError};

/// The limits of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct MilterLimits {
    pub(super) message_bytes_max: usize,
    pub(super) recipients_max: usize,
}

/// The SMTP client at the mail server.
#[derive(Debug, Clone, Default)]
pub(super) struct SmtpClient {
    pub(super) name: String,
    pub(super) address: Option<SocketAddr>,
    pub(super) helo: Option<String>,
}

/// A message that is still arriving.
#[derive(Debug, Clone, Default)]
pub(super) struct MilterTransaction {
    pub(super) sender: Option<String>,
    /// Recipients as the mail server wrote them, with their angle brackets, which is the form for
    /// deleting them.
    pub(super) recipients: Vec<String>,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) is_too_large: bool,
    /// Whether the memory budget has no space for the message.
    pub(super) lacks_room: bool,
    /// Bytes of recipients, head and body that the mail server sent.
    sent: usize,
    /// Bytes that the recipients occupy.
    recipient_bytes: usize,
}

/// A complete message with its client and macros.
#[derive(Debug)]
pub(super) struct CompleteMessage {
    pub(super) agreement: NegotiatedOptions,
    pub(super) host: SmtpClient,
    pub(super) user: Option<String>,
    /// The mail server's own name, and its id for the message.
    pub(super) server: Option<String>,
    pub(super) queue_id: Option<String>,
    pub(super) transaction: MilterTransaction,
}

impl SmtpClient {
    /// Parses the packet that reports a connected client.
    pub(super) fn from_packet(data: &[u8]) -> Result<Self, MilterError> {
        let name = packet::strings(data)
            .next()
            .ok_or(MilterError::Short('C'))?;
        let rest = data.get(name.len() + 1..).unwrap_or_default();
        Ok(Self {
            name: packet::text(name),
            address: address(rest),
            helo: None,
        })
    }

    pub(super) fn peer(&self) -> Peer {
        self.address.map_or(Peer::Local, Peer::Address)
    }
}

impl MilterTransaction {
    /// Begins a message with the packet that contains its sender.
    pub(super) fn from_sender(data: &[u8]) -> Result<Self, MilterError> {
        let sender = packet::strings(data)
            .next()
            .ok_or(MilterError::Short('M'))?;
        Ok(Self {
            sender: Some(bare(&packet::text(sender)).to_owned()),
            ..Self::default()
        })
    }

    /// Adds a recipient; returns false if the message has the maximum number of recipients.
    pub(super) fn recipient(
        &mut self,
        data: &[u8],
        limits: MilterLimits,
    ) -> Result<bool, MilterError> {
        let recipient = packet::strings(data)
            .next()
            .ok_or(MilterError::Short('R'))?;
        if self.recipients.len() >= limits.recipients_max {
            return Ok(false);
        }
        if self.takes(recipient.len(), limits) {
            let recipient = packet::text(recipient);
            self.recipient_bytes += size_of::<String>() + recipient.len();
            self.recipients.push(recipient);
        }
        Ok(true)
    }

    /// Adds a field of a packet: name and value; the lines of a folded value are separated by LF.
    pub(super) fn header(
        &mut self,
        data: &[u8],
        agreement: NegotiatedOptions,
        limits: MilterLimits,
    ) -> Result<(), MilterError> {
        let mut strings = packet::strings(data);
        let (Some(name), Some(value)) = (strings.next(), strings.next()) else {
            return Err(MilterError::Short('L'));
        };
        if !self.takes(name.len() + value.len() + 4, limits) {
            return Ok(());
        }
        let head = &mut self.head;
        head.extend_from_slice(name);
        // With the agreement the blank after the colon belongs to the value.
        let colon: &[u8] = if agreement.has(step::LEADING_SPACE) {
            b":"
        } else {
            b": "
        };
        head.extend_from_slice(colon);
        for line in value.split_inclusive(|&byte| byte == b'\n') {
            let text = line.strip_suffix(b"\n");
            head.extend_from_slice(text.map_or(line, |text| text.trim_ascii_end()));
            if text.is_some() {
                head.extend_from_slice(b"\r\n");
            }
        }
        head.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Adds a piece of the body.
    pub(super) fn body(&mut self, chunk: &[u8], limits: MilterLimits) {
        if self.takes(chunk.len(), limits) {
            self.body.extend_from_slice(chunk);
        }
    }

    /// Whether this many more bytes are within the limit and are kept.
    fn takes(&mut self, bytes: usize, limits: MilterLimits) -> bool {
        self.sent = self.sent.saturating_add(bytes);
        if self.sent > limits.message_bytes_max {
            self.is_too_large = true;
            self.discard();
        }
        !self.is_too_large && !self.lacks_room
    }

    /// The number of bytes that are held of the message.
    pub(super) fn held_bytes(&self) -> u64 {
        (self.recipient_bytes + self.head.len() + self.body.len()) as u64
    }

    /// Marks the message to be refused at its end, because there is no memory for it.
    pub(super) fn refuse_for_memory(&mut self) {
        self.lacks_room = true;
        self.discard();
    }

    /// A message that is refused at its end is not kept.
    fn discard(&mut self) {
        self.recipients = Vec::new();
        self.recipient_bytes = 0;
        self.head = Vec::new();
        self.body = Vec::new();
    }
}

/// Family, port, address: `4`, two bytes, `192.0.2.1` NUL.
fn address(data: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = data.split_first()?;
    if !matches!(family, b'4' | b'6') {
        return None;
    }
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let text = std::str::from_utf8(packet::strings(rest).next()?).ok()?;
    let text = text.strip_prefix("IPv6:").unwrap_or(text);
    let address: IpAddr = text.parse().ok()?;
    Some(SocketAddr::new(address, u16::from_be_bytes(*port)))
}

/// An address without its angle brackets.
pub(super) fn bare(path: &str) -> &str {
    path.strip_prefix('<')
        .and_then(|path| path.strip_suffix('>'))
        .unwrap_or(path)
}
