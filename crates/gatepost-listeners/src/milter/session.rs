//! The state of a connection, packet by packet, until a message is complete. Without I/O.
//!
//! The mail server decides the order of packets: each packet is processed by itself, a new sender
//! begins a new message, and an end of message without a sender is judged as an empty message.

use super::macros::Macros;
use super::negotiation::{NegotiatedOptions, step};
use super::packet::{self, MilterError, MilterPacket};
use super::transaction::{CompleteMessage, MilterLimits, MilterTransaction, SmtpClient};
use crate::in_flight::{InFlight, InFlightLease};

/// One connection of a mail server.
#[derive(Debug)]
pub(super) struct MilterSession {
    limits: MilterLimits,
    agreement: Option<NegotiatedOptions>,
    host: SmtpClient,
    macros: Macros,
    transaction: MilterTransaction,
}

/// The next step after a packet.
#[derive(Debug)]
pub(super) enum PacketOutcome {
    /// The mail server expects no answer.
    Silence,
    /// The mail server waits for this agreement.
    Agree(NegotiatedOptions),
    /// The mail server waits for permission to continue.
    Continue,
    /// The mail server must refuse this recipient: the message has the maximum number of
    /// recipients.
    RefuseRecipient,
    /// The mail server need not send the rest of the body.
    Skip,
    /// A message is complete and waits for its verdict.
    Judge(Box<CompleteMessage>),
    /// The mail server has quit.
    End,
}

impl MilterSession {
    pub(super) fn new(limits: MilterLimits) -> Self {
        Self {
            limits,
            agreement: None,
            host: SmtpClient::default(),
            macros: Macros::default(),
            transaction: MilterTransaction::default(),
        }
    }

    /// Whether a message has begun and is not complete.
    pub(super) fn is_within_message(&self) -> bool {
        self.transaction.sender.is_some()
    }

    /// Reserves memory for the message; a message without a reservation is refused at its end.
    pub(super) fn reserve(&mut self, lease: &mut Option<InFlightLease>, in_flight: &InFlight) {
        // Parts that precede the sender are held too.
        let held = self.transaction.held_bytes();
        if held == 0 && !self.is_within_message() {
            *lease = None;
            return;
        }
        let peer = self.host.peer();
        let lease = lease.get_or_insert_with(|| in_flight.lease(peer));
        if lease.reserve(held).is_err() {
            self.transaction.refuse_for_memory();
        }
    }

    /// Processes one packet.
    pub(super) fn take(&mut self, packet: &MilterPacket) -> Result<PacketOutcome, MilterError> {
        let data = &packet.data;
        if packet.command == b'O' {
            let agreement = NegotiatedOptions::from_offer(data)?;
            self.agreement = Some(agreement);
            return Ok(PacketOutcome::Agree(agreement));
        }
        let agreement = self.agreement.ok_or(MilterError::NotNegotiated)?;
        let silent_step = match packet.command {
            b'D' => {
                self.macros.take(data);
                return Ok(PacketOutcome::Silence);
            }
            b'A' => {
                self.transaction = MilterTransaction::default();
                return Ok(PacketOutcome::Silence);
            }
            b'Q' => return Ok(PacketOutcome::End),
            // The next client of the mail server follows on this connection.
            b'K' => {
                self.forget_client();
                return Ok(PacketOutcome::Silence);
            }
            b'E' => {
                self.transaction.body(data, self.limits);
                return Ok(PacketOutcome::Judge(Box::new(self.whole(agreement))));
            }
            b'C' => {
                self.connect(data)?;
                step::SILENT_CONNECT
            }
            b'H' => {
                self.host.helo = packet::strings(data).next().map(packet::text);
                step::SILENT_HELO
            }
            b'M' => {
                self.mail(data)?;
                step::SILENT_MAIL
            }
            b'R' => {
                let is_taken = self.transaction.recipient(data, self.limits)?;
                if !is_taken && !agreement.has(step::SILENT_RECIPIENT) {
                    return Ok(PacketOutcome::RefuseRecipient);
                }
                step::SILENT_RECIPIENT
            }
            b'L' => {
                self.transaction.header(data, agreement, self.limits)?;
                step::SILENT_HEADER
            }
            b'B' => {
                self.transaction.body(data, self.limits);
                let may_skip = agreement.has(step::SKIP) && !agreement.has(step::SILENT_BODY);
                if may_skip && self.transaction.is_too_large {
                    return Ok(PacketOutcome::Skip);
                }
                step::SILENT_BODY
            }
            b'T' => step::SILENT_DATA,
            b'N' => step::SILENT_END_OF_HEADERS,
            b'U' => step::SILENT_UNKNOWN,
            other => return Err(MilterError::Unknown(char::from(other))),
        };
        Ok(if agreement.has(silent_step) {
            PacketOutcome::Silence
        } else {
            PacketOutcome::Continue
        })
    }

    fn whole(&mut self, agreement: NegotiatedOptions) -> CompleteMessage {
        CompleteMessage {
            agreement,
            host: self.host.clone(),
            user: self.macros.value_of("{auth_authen}"),
            server: self.macros.value_of("j"),
            queue_id: self.macros.value_of("i"),
            transaction: std::mem::take(&mut self.transaction),
        }
    }

    fn forget_client(&mut self) {
        self.host = SmtpClient::default();
        self.macros = Macros::default();
        self.transaction = MilterTransaction::default();
    }

    fn connect(&mut self, data: &[u8]) -> Result<(), MilterError> {
        // The macros of a connection precede it.
        self.macros.forget_message();
        self.transaction = MilterTransaction::default();
        self.host = SmtpClient::from_packet(data)?;
        Ok(())
    }

    fn mail(&mut self, data: &[u8]) -> Result<(), MilterError> {
        self.transaction = MilterTransaction::from_sender(data)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::InFlightSettings;
    use bytes::Bytes;
    use gatepost_settings::ByteSize;
    use proptest::prelude::*;

    const LIMITS: MilterLimits = MilterLimits {
        message_bytes_max: 100,
        recipients_max: 2,
    };

    fn packet(command: u8, data: &[u8]) -> MilterPacket {
        MilterPacket {
            command,
            data: Bytes::copy_from_slice(data),
        }
    }

    fn session(steps: u32) -> MilterSession {
        let mut session = MilterSession::new(LIMITS);
        let offer = [6, 0x1ff, steps].map(u32::to_be_bytes).concat();
        session.take(&packet(b'O', &offer)).expect("negotiated");
        session
    }

    fn feed(session: &mut MilterSession, packets: &[(u8, &[u8])]) -> Option<Box<CompleteMessage>> {
        let mut whole = None;
        for (command, data) in packets {
            match session.take(&packet(*command, data)).expect("well formed") {
                PacketOutcome::Judge(message) => whole = Some(message),
                next => assert!(matches!(
                    next,
                    PacketOutcome::Silence
                        | PacketOutcome::Continue
                        | PacketOutcome::Skip
                        | PacketOutcome::RefuseRecipient
                )),
            }
        }
        whole
    }

    #[test]
    fn a_message_is_gathered() {
        let mut session = session(0);
        let whole = feed(
            &mut session,
            &[
                (b'D', b"Cj\0mx.example\0{client_name}\0host\0"),
                (b'C', b"host.example\x004\x10\x01192.0.2.9\0"),
                (b'H', b"helo.example\0"),
                (b'D', b"M{auth_authen}\0anna\0i\0Q1\0"),
                (b'M', b"<a@example.org>\0SIZE=9\0"),
                (b'R', b"<b@example.org>\0"),
                (b'L', b"Subject\0one\n\ttwo\0"),
                (b'N', b""),
                (b'B', b"body\r\n"),
                (b'E', b""),
            ],
        );
        let whole = whole.expect("a message");
        let transaction = &whole.transaction;
        assert_eq!(transaction.head, b"Subject: one\r\n\ttwo\r\n");
        assert_eq!(transaction.body, b"body\r\n");
        assert_eq!(transaction.sender.as_deref(), Some("a@example.org"));
        assert_eq!(transaction.recipients, ["<b@example.org>"]);
        assert_eq!(whole.host.peer().to_string(), "192.0.2.9:4097");
        assert_eq!(whole.host.helo.as_deref(), Some("helo.example"));
        assert_eq!(whole.user.as_deref(), Some("anna"));
        assert_eq!(whole.server.as_deref(), Some("mx.example"));
        assert_eq!(whole.queue_id.as_deref(), Some("Q1"));
        assert!(!session.is_within_message());
    }

    #[test]
    fn limits_are_kept_and_remembered_for_the_end() {
        let mut session = session(0);
        let whole = feed(
            &mut session,
            &[
                (b'M', b"<>\0"),
                (b'R', b"<b@c>\0"),
                (b'B', &[b'x'; 90]),
                (b'B', &[b'x'; 90]),
                (b'B', b"small"),
                (b'E', b""),
            ],
        );
        let whole = whole.expect("a message");
        assert!(whole.transaction.is_too_large);
        assert!(whole.transaction.body.is_empty());
        let many: [(u8, &[u8]); 5] = [
            (b'M', b"<>\0"),
            (b'R', b"<b@c>\0"),
            (b'R', b"<d@c>\0"),
            (b'R', b"<e@c>\0"),
            (b'E', b""),
        ];
        let whole = feed(&mut session, &many).expect("a message");
        assert!(!whole.transaction.is_too_large);
        assert_eq!(whole.transaction.recipients, ["<b@c>", "<d@c>"]);
    }

    #[test]
    fn a_recipient_too_many_is_refused_where_it_is_named() {
        let mut session = session(0);
        feed(&mut session, &[(b'M', b"<>\0"), (b'R', b"<b@c>\0")]);
        let mut answer = |data| session.take(&packet(b'R', data)).expect("well formed");
        assert!(matches!(answer(b"<d@c>\0"), PacketOutcome::Continue));
        assert!(matches!(answer(b"<e@c>\0"), PacketOutcome::RefuseRecipient));
    }

    #[test]
    fn nothing_more_is_held_of_a_message_beyond_any_limit() {
        let mut session = session(0);
        let begun: [(u8, &[u8]); 2] = [(b'M', b"<>\0"), (b'B', &[b'x'; 101])];
        assert!(feed(&mut session, &begun).is_none());
        for _ in 0..20 {
            assert!(feed(&mut session, &[(b'L', b"Subject\0long\0"), (b'B', b"body")]).is_none());
        }
        assert!(session.transaction.head.is_empty() && session.transaction.body.is_empty());
        let long = [b"<".as_slice(), &[b'x'; 150], b"@c>\0"].concat();
        assert!(feed(&mut session, &[(b'M', b"<>\0"), (b'R', &long)]).is_none());
        assert!(session.transaction.is_too_large);
        assert!(session.transaction.recipients.is_empty());
    }

    #[test]
    fn all_that_is_held_is_reserved() {
        let body = b"x".repeat(60_000);
        let recipient = [b"<", &body[..], b"@c>\0"].concat();
        let field = [b"X\0", &body[..], b"\0"].concat();
        let parts: [(u8, &[u8]); 3] = [(b'R', &recipient), (b'L', &field), (b'B', &body)];
        for part in parts {
            for begin in [&[][..], &[(b'M', b"<a@b>\0".as_slice())]] {
                let limits = MilterLimits {
                    message_bytes_max: 10 << 20,
                    recipients_max: 1_000,
                };
                let mut session = MilterSession {
                    limits,
                    ..session(0)
                };
                let in_flight = InFlight::new(&InFlightSettings {
                    bytes_max: ByteSize::mebibytes(1),
                });
                let mut lease = None;
                let mut reserved_max = 0;
                assert!(feed(&mut session, begin).is_none());
                for _ in 0..100 {
                    assert!(feed(&mut session, &[part]).is_none());
                    session.reserve(&mut lease, &in_flight);
                    reserved_max = reserved_max.max(in_flight.bytes());
                }
                let name = char::from(part.0);
                assert!(session.transaction.lacks_room, "{name}");
                assert_eq!(session.transaction.held_bytes(), 0, "{name}");
                assert!(session.transaction.recipients.is_empty(), "{name}");
                assert!(reserved_max > 0, "{name}");
                assert!(feed(&mut session, &[(b'A', b"")]).is_none());
                session.reserve(&mut lease, &in_flight);
                assert_eq!(in_flight.bytes(), 0, "{name}");
            }
        }
    }

    #[test]
    fn an_abort_or_a_new_client_forgets() {
        let mut session = session(0);
        let begun: [(u8, &[u8]); 3] = [(b'M', b"<a@b>\0"), (b'B', b"x"), (b'A', b"")];
        assert!(feed(&mut session, &begun).is_none());
        assert!(!session.is_within_message());
        let next: [(u8, &[u8]); 3] = [(b'H', b"me\0"), (b'K', b""), (b'E', b"")];
        let whole = feed(&mut session, &next).expect("a message");
        assert_eq!(whole.host.helo, None);
        assert!(whole.transaction.body.is_empty());
    }

    #[test]
    fn no_packet_precedes_the_negotiation() {
        let refused = MilterSession::new(LIMITS).take(&packet(b'C', b"x\0U"));
        assert_eq!(refused.err(), Some(MilterError::NotNegotiated));
    }

    proptest! {
        #[test]
        fn any_packets_are_taken_or_refused(
            packets in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)),
                0..20,
            ),
        ) {
            let mut session = session(0);
            for (command, data) in packets {
                let _ = session.take(&packet(command, &data)).is_ok();
                let transaction = &session.transaction;
                prop_assert!(transaction.head.len() + transaction.body.len() <= 200);
            }
        }
    }
}
