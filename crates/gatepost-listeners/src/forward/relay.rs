//! One transaction at the next hop, parallel to the client's own.
//!
//! Dropping it before its end closes the connection, and the next hop discards what it had
//! received: a client that disconnects ends both transactions.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use memchr::{memchr, memchr2, memchr2_iter};

use super::error::HopError;
use super::hop::HopConnection;
use super::next_hop::NextHop;
use super::reply::HopReply;
use super::{ForwardContext, ForwardSettings, pool};

/// The encoding of the body (RFC 6152, RFC 3030).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BodyEncoding {
    /// The client gave no BODY, or 7BIT.
    #[default]
    SevenBit,
    EightBit,
    /// Any bytes, lines or none.
    Binary,
}

impl BodyEncoding {
    /// The encoding that a stored mail needs. One with CR LF after its first line, and a bare CR
    /// or LF or a NUL after that, arrived as binary: RFC 3030, section 3 forbids DATA for it.
    pub(crate) fn of(mail: &[u8]) -> Self {
        let has_line_ends = memchr(b'\n', mail)
            .and_then(|end| mail.get(..end))
            .is_some_and(|line| line.ends_with(b"\r"));
        let is_bare = |at: usize| match mail.get(at) {
            Some(b'\r') => mail.get(at + 1) != Some(&b'\n'),
            _ => at.checked_sub(1).and_then(|before| mail.get(before)) != Some(&b'\r'),
        };
        let is_binary =
            || memchr(0, mail).is_some() || memchr2_iter(b'\r', b'\n', mail).any(is_bare);
        if has_line_ends && is_binary() {
            Self::Binary
        } else if mail.is_ascii() {
            Self::SevenBit
        } else {
            Self::EightBit
        }
    }
}

/// The client's MAIL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RelayMail {
    /// Without angle brackets; empty for the null reverse path.
    pub(crate) from: String,
    pub(crate) body: BodyEncoding,
    pub(crate) utf8: bool,
    pub(crate) size: Option<u64>,
    /// DSN's RET and ENVID (RFC 3461), as written.
    pub(crate) parameters: Vec<String>,
}

/// The client's identity, for XFORWARD.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RelayClient {
    pub(crate) address: Option<IpAddr>,
    pub(crate) helo: Option<String>,
    pub(crate) protocol: &'static str,
}

/// An open transaction.
pub(crate) struct HopTransaction {
    hop: HopConnection,
    next_hop: Arc<NextHop>,
    settings: ForwardSettings,
    mail: RelayMail,
    /// The recipients that the next hop accepted, with their parameters.
    accepted: Vec<(String, Vec<String>)>,
    has_mail: bool,
}

/// The response of the next hop to MAIL.
pub(crate) enum RelayStart {
    /// The next hop waits for recipients.
    Open(Box<HopTransaction>),
    /// The next hop refused.
    Refused(HopReply),
}

/// The maximum size that the verdict headers may add to a message, for the announced size.
const HEADER_BYTES: u64 = 8 * 1024;

impl HopTransaction {
    /// Begins a transaction: over an idle connection if there is one.
    pub(crate) async fn begin(
        next_hop: &Arc<NextHop>,
        forward: &ForwardContext,
        hostname: &str,
        origin: &RelayClient,
        mail: RelayMail,
    ) -> Result<RelayStart, HopError> {
        let settings = &forward.settings;
        if let Some(hop) = pool::take(next_hop, settings) {
            let begun = Self::begin_over(hop, next_hop, settings, origin, mail.clone()).await;
            // The next hop may close an idle connection at any time, or accept no more messages
            // over it (`452 Too many messages`). A new connection shows whether it accepts this
            // mail.
            if let Ok(begun) = begun
                && !matches!(&begun, RelayStart::Refused(reply) if reply.is_transient())
            {
                return Ok(begun);
            }
        }
        let hop = HopConnection::open(next_hop, forward, hostname).await?;
        Self::begin_over(hop, next_hop, settings, origin, mail).await
    }

    async fn begin_over(
        hop: HopConnection,
        next_hop: &Arc<NextHop>,
        settings: &ForwardSettings,
        origin: &RelayClient,
        mail: RelayMail,
    ) -> Result<RelayStart, HopError> {
        let mut relay = Self {
            hop,
            next_hop: Arc::clone(next_hop),
            settings: settings.clone(),
            mail,
            accepted: Vec::new(),
            has_mail: false,
        };
        if settings.xforward && relay.hop.offers.xforward {
            let limit = settings.command_timeout.duration();
            relay.hop.command(&xforward(origin), limit).await?;
        }
        let reply = relay.mail().await?;
        if reply.code == 421 {
            return Err(HopError::Refused(reply.code, reply.text()));
        }
        if reply.is_positive() {
            return Ok(RelayStart::Open(Box::new(relay)));
        }
        // A connection over which mail is refused for now is not used again.
        if !reply.is_transient() {
            relay.end().await;
        }
        Ok(RelayStart::Refused(reply))
    }

    async fn mail(&mut self) -> Result<HopReply, HopError> {
        let offers = self.hop.offers;
        let unfit = match self.mail.body {
            BodyEncoding::Binary if !(offers.binary && offers.chunking) => {
                Some("5.6.3 the next hop does not accept BINARYMIME")
            }
            BodyEncoding::EightBit if !offers.eight_bit => {
                Some("5.6.3 the next hop does not accept 8BITMIME")
            }
            _ if self.mail.utf8 && !offers.utf8 => Some(
                "5.6.7 the next hop does not accept \
                SMTPUTF8",
            ),
            _ => None,
        };
        if let Some(reason) = unfit {
            return Ok(HopReply {
                code: 554,
                lines: vec![reason.to_owned()],
            });
        }
        let mut line = format!("MAIL FROM:<{}>", self.mail.from);
        match self.mail.body {
            BodyEncoding::SevenBit => {}
            BodyEncoding::EightBit => line += " BODY=8BITMIME",
            BodyEncoding::Binary => line += " BODY=BINARYMIME",
        }
        if self.mail.utf8 {
            line += " SMTPUTF8";
        }
        if let Some(size) = self.mail.size.filter(|_| offers.size) {
            line += " SIZE=";
            line += &size.saturating_add(HEADER_BYTES).to_string();
        }
        if offers.dsn {
            for parameter in &self.mail.parameters {
                line += " ";
                line += parameter;
            }
        }
        let limit = self.settings.command_timeout.duration();
        let reply = self.hop.command(&line, limit).await?;
        self.has_mail = reply.is_positive();
        Ok(reply)
    }

    pub(crate) const fn next_hop(&self) -> &Arc<NextHop> {
        &self.next_hop
    }

    /// Sends one RCPT.
    pub(crate) async fn recipient(
        &mut self,
        address: &str,
        parameters: &[String],
    ) -> Result<HopReply, HopError> {
        let reply = self.send_recipient(address, parameters).await?;
        if reply.is_positive() {
            let recipient = (address.to_owned(), parameters.to_vec());
            self.accepted.push(recipient);
        }
        Ok(reply)
    }

    async fn send_recipient(
        &mut self,
        address: &str,
        parameters: &[String],
    ) -> Result<HopReply, HopError> {
        let mut line = format!("RCPT TO:<{address}>");
        if self.hop.offers.dsn {
            for parameter in parameters {
                line += " ";
                line += parameter;
            }
        }
        let limit = self.settings.command_timeout.duration();
        self.hop.command(&line, limit).await
    }

    /// Whether these are all that the next hop accepted.
    pub(crate) fn is_for(&self, addresses: &[String]) -> bool {
        self.has_mail
            && self.accepted.len() == addresses.len()
            && addresses
                .iter()
                .zip(&self.accepted)
                .all(|(a, (b, _))| a == b)
    }

    /// Begins another transaction for some of the accepted recipients, since the others get a
    /// different message. Returns a reply if the next hop refuses this time.
    pub(crate) async fn narrow(
        &mut self,
        addresses: &[String],
    ) -> Result<Option<HopReply>, HopError> {
        let limit = self.settings.command_timeout.duration();
        if self.has_mail {
            self.hop.command("RSET", limit).await?;
        }
        let reply = self.mail().await?;
        if !reply.is_positive() {
            return Ok(Some(reply));
        }
        for (address, parameters) in self.accepted.clone() {
            if addresses.contains(&address) {
                let reply = self.send_recipient(&address, &parameters).await?;
                if !reply.is_positive() {
                    return Ok(Some(reply));
                }
            }
        }
        Ok(None)
    }

    /// Sends the message. Returns one reply, or with LMTP one for each of the `recipients`.
    pub(crate) async fn deliver(
        &mut self,
        message: &[u8],
        recipients: usize,
    ) -> Result<Vec<HopReply>, HopError> {
        let limit = self.settings.command_timeout.duration();
        if self.mail.body == BodyEncoding::Binary {
            self.has_mail = false;
            let head = format!("BDAT {} LAST\r\n", message.len());
            self.hop.send(head.as_bytes(), limit).await?;
            self.hop.send(message, limit).await?;
        } else {
            let reply = self.hop.command("DATA", limit).await?;
            if reply.code != 354 {
                // Its transaction is still open: the end will reset it.
                return Ok(vec![reply; recipients.max(1)]);
            }
            self.has_mail = false;
            self.hop.send(&stuffed(message), limit).await?;
        }
        let replies = if self.hop.speaks_lmtp { recipients } else { 1 };
        let limit = self.settings.message_timeout.duration();
        let mut answers = Vec::new();
        for _ in 0..replies.max(1) {
            answers.push(self.hop.reply(limit).await?);
        }
        Ok(answers)
    }

    /// Ends the transaction, delivered or not, and keeps the connection for the next.
    pub(crate) async fn end(mut self) {
        if self.has_mail {
            let limit = self.settings.command_timeout.duration();
            let reset = self.hop.command("RSET", limit).await;
            if !reset.is_ok_and(|reply| reply.is_positive()) {
                return;
            }
        }
        pool::put(&self.next_hop, self.hop, &self.settings);
    }
}

/// `XFORWARD NAME=… ADDR=… PROTO=… HELO=…`, values as xtext (RFC 1891, section 5).
fn xforward(origin: &RelayClient) -> String {
    let unavailable = || "[UNAVAILABLE]".to_owned();
    let address = match origin.address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("IPv6:{address}"),
        None => unavailable(),
    };
    let helo = origin.helo.as_deref().map_or_else(unavailable, xtext);
    let protocol = origin.protocol;
    format!("XFORWARD NAME=[UNAVAILABLE] ADDR={address} PROTO={protocol} HELO={helo}")
}

fn xtext(text: &str) -> String {
    let mut encoded = Vec::new();
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'+' && byte != b'=' {
            encoded.push(byte);
        } else {
            // Writing to memory cannot fail.
            let _ = write!(encoded, "+{byte:02X}");
        }
    }
    String::from_utf8(encoded).unwrap_or_default()
}

/// The message as DATA has it: CR LF at the end of each line, dots at the start of lines doubled,
/// and the end appended. A procedure may have written other line ends; a bare CR or LF is never
/// sent, since servers disagree about whether it ends a line (RFC 5321, section 2.3.8).
fn stuffed(message: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(message.len() + message.len() / 64 + 8);
    let mut rest = message;
    while !rest.is_empty() {
        if rest.first() == Some(&b'.') {
            output.push(b'.');
        }
        let end = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let (line, remainder) = rest.split_at(end);
        output.extend_from_slice(line);
        output.extend_from_slice(b"\r\n");
        rest = match remainder.strip_prefix(b"\r\n") {
            Some(next) => next,
            None => remainder.get(1..).unwrap_or_default(),
        };
    }
    output.extend_from_slice(b".\r\n");
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_doubled_and_the_end_is_on_its_own_line() {
        for (message, expected) in [
            ("", ".\r\n"),
            (".", "..\r\n.\r\n"),
            ("a\r\n.\r\n..b\r\n", "a\r\n..\r\n...b\r\n.\r\n"),
            ("a.b", "a.b\r\n.\r\n"),
            ("a\r\n\r\n", "a\r\n\r\n.\r\n"),
            ("a\n.\nb\r.\r\n", "a\r\n..\r\nb\r\n..\r\n.\r\n"),
            ("a\r\r\n\n", "a\r\n\r\n\r\n.\r\n"),
        ] {
            assert_eq!(
                stuffed(message.as_bytes()),
                expected.as_bytes(),
                "{message:?}"
            );
        }
    }

    #[test]
    fn a_stored_mail_is_sent_as_it_arrived() {
        for (mail, expected) in [
            ("A: b\r\n\r\ntext\r\n", BodyEncoding::SevenBit),
            ("A: b\r\n\r\nä\r\n", BodyEncoding::EightBit),
            ("A: b\r\n\r\na\nb\r\n", BodyEncoding::Binary),
            ("A: b\r\n\r\na\r", BodyEncoding::Binary),
            ("A: b\r\n\r\na\0b\r\n", BodyEncoding::Binary),
            ("A: b\n\ntext\n", BodyEncoding::SevenBit),
            ("\n", BodyEncoding::SevenBit),
            ("", BodyEncoding::SevenBit),
        ] {
            assert_eq!(BodyEncoding::of(mail.as_bytes()), expected, "{mail:?}");
        }
    }

    #[test]
    fn the_client_is_named_without_a_way_out_of_its_value() {
        let origin = RelayClient {
            address: Some("2001:db8::1".parse().expect("an address")),
            helo: Some("a b=c\r\nQUIT".to_owned()),
            protocol: "ESMTP",
        };
        assert_eq!(
            xforward(&origin),
            "XFORWARD NAME=[UNAVAILABLE] ADDR=IPv6:2001:db8::1 PROTO=ESMTP HELO=a+20b+3Dc+0D+0AQUIT"
        );
    }
}
