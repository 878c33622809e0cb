//! One session: greeting, envelope, body, and the next message.

use memchr::memchr;

use super::SmtpArguments;
use crate::clock::Nanoseconds;
use crate::load::{ConnectionClosed, Conversation, ReceiveOutcome};
use crate::scenario::mail;
use crate::scenario::tally::{MeasurementCounts, Names};

/// The maximum length of a reply line.
const LINE_MAX_BYTES: usize = 4096;
const NAMES: Names = Names {
    one: "message",
    several: "messages",
    refused: "refused",
};

/// Totals of all sessions.
pub(super) struct SmtpTotals {
    envelope: String,
    body: Vec<u8>,
    per_connection: u64,
    pub(super) tally: MeasurementCounts,
}

impl SmtpTotals {
    pub(super) fn new(arguments: &SmtpArguments, measure_from: Nanoseconds) -> Self {
        let mut body = mail::message(1, arguments.size.get());
        // Lines of the generated text never begin with a dot, so no dot-stuffing is needed.
        body.extend_from_slice(b"\r\n.\r\n");
        Self {
            envelope: format!(
                "MAIL FROM:<sender@example.net>\r\nRCPT TO:<{}>\r\nDATA\r\n",
                arguments.recipient
            ),
            body,
            per_connection: arguments.per_connection,
            tally: MeasurementCounts::new(NAMES, measure_from),
        }
    }
}

/// The command that the next reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AwaitedReply {
    #[default]
    Greeting,
    Hello,
    From,
    Recipient,
    Data,
    Body,
    Quit,
}

/// A session in progress.
#[derive(Default)]
pub(super) struct SmtpLoadSession {
    awaiting: AwaitedReply,
    pipelining: bool,
    /// Whether a recipient of the current message was refused.
    refused: bool,
    messages: u64,
    begun: Nanoseconds,
}

impl SmtpLoadSession {
    /// When the message in progress was begun, if there is one.
    pub(super) fn begun(&self) -> Option<Nanoseconds> {
        let is_sending = matches!(
            self.awaiting,
            AwaitedReply::From | AwaitedReply::Recipient | AwaitedReply::Data | AwaitedReply::Body
        );
        is_sending.then_some(self.begun)
    }

    /// Begins a message, or ends the session after the last one.
    fn next_message(&mut self, now: Nanoseconds, shared: &SmtpTotals, outgoing: &mut Vec<u8>) {
        if self.messages >= shared.per_connection {
            outgoing.extend_from_slice(b"QUIT\r\n");
            self.awaiting = AwaitedReply::Quit;
            return;
        }
        self.begun = now;
        self.refused = false;
        self.awaiting = AwaitedReply::From;
        self.send_command(0, shared, outgoing);
    }

    /// Sends the n-th line of the envelope, or with pipelining the whole envelope at the first.
    fn send_command(&self, number: usize, shared: &SmtpTotals, outgoing: &mut Vec<u8>) {
        if self.pipelining {
            if number == 0 {
                outgoing.extend_from_slice(shared.envelope.as_bytes());
            }
        } else if let Some(line) = shared.envelope.split_inclusive("\r\n").nth(number) {
            outgoing.extend_from_slice(line.as_bytes());
        }
    }

    /// Processes the last line of a reply; returns whether the session continues.
    fn reply(
        &mut self,
        line: &[u8],
        now: Nanoseconds,
        shared: &mut SmtpTotals,
        outgoing: &mut Vec<u8>,
    ) -> bool {
        let positive = matches!(line.first(), Some(b'2' | b'3'));
        if !positive {
            self.refused = true;
            shared
                .tally
                .failed(|| String::from_utf8_lossy(line).into_owned());
        }
        match self.awaiting {
            AwaitedReply::Greeting => {
                outgoing.extend_from_slice(b"EHLO bench.example.net\r\n");
                self.awaiting = AwaitedReply::Hello;
                return positive;
            }
            AwaitedReply::Hello => {
                self.next_message(now, shared, outgoing);
                return positive;
            }
            AwaitedReply::From => {
                self.awaiting = AwaitedReply::Recipient;
                self.send_command(1, shared, outgoing);
            }
            AwaitedReply::Recipient => {
                self.awaiting = AwaitedReply::Data;
                self.send_command(2, shared, outgoing);
            }
            AwaitedReply::Data if positive => {
                self.awaiting = AwaitedReply::Body;
                outgoing.extend_from_slice(&shared.body);
            }
            AwaitedReply::Data | AwaitedReply::Body => {
                self.messages += 1;
                shared.tally.count(!self.refused, self.begun, now);
                self.next_message(now, shared, outgoing);
            }
            AwaitedReply::Quit => return false,
        }
        true
    }
}

impl Conversation<SmtpTotals> for SmtpLoadSession {
    fn connected(&mut self, _shared: &mut SmtpTotals, _outgoing: &mut Vec<u8>) {}

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut SmtpTotals,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let mut taken = 0;
        while let Some(end) = memchr(b'\n', &bytes[taken..]) {
            let line = bytes[taken..taken + end].trim_ascii_end();
            taken += end + 1;
            self.pipelining |=
                self.awaiting == AwaitedReply::Hello && line.ends_with(b"PIPELINING");
            // All lines of a reply but the last have a dash after the code (RFC 5321, section
            // 4.2.1).
            if line.get(3) == Some(&b'-') {
                continue;
            }
            if !self.reply(line, now, shared, outgoing) {
                return ReceiveOutcome::Finished;
            }
        }
        if bytes.len() - taken > LINE_MAX_BYTES {
            return ReceiveOutcome::Broken;
        }
        ReceiveOutcome::Taken(taken)
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut SmtpTotals) {
        if self.awaiting != AwaitedReply::Quit {
            shared.tally.count_broken();
            shared
                .tally
                .failed(|| format!("{reason:?} awaiting {:?}", self.awaiting));
        }
    }
}
