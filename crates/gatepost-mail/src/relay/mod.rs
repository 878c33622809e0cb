//! The relays of a message, parsed from its `Received:` fields.
//!
//! Each mail server has its own format of this field. [`mod@line`] converts a field to one form,
//! [`gatepost`] reads this program's own, and [`received_format`] contains the other known formats.
//! This module walks the relays from the newest to the oldest and decides how far they can be
//! trusted: a relay outside the trusted networks may have forged all fields below its own.

mod authentication;
mod gatepost;
mod line;
mod received_format;

use std::fmt::Write as _;

use super::Mail;
use super::ip;
use super::network::Networks;
use line::{ReceivedLine, read_line};

/// The most `Received:` fields that are read.
const RECEIVED_MAX: usize = 1000;

/// One hop of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relay {
    /// The address of the sender.
    pub ip: String,
    /// Its name by reverse DNS, if the receiver looked it up.
    pub rdns: String,
    /// The name in its HELO command.
    pub helo: String,
    /// The receiver.
    pub by: String,
    /// The response to an RFC 1413 query.
    pub ident: String,
    /// The envelope sender, if the receiver recorded it.
    pub envelope_from: Option<String>,
    /// The receiver's id of the message.
    pub id: String,
    /// The method by which the sender was authenticated; empty if it was not.
    pub auth: String,
    /// The address is not public.
    pub ip_private: bool,
    /// The receiver looks names up, and there was none.
    pub no_reverse_dns: bool,
    /// The relay is in `internal_networks`.
    pub internal: bool,
    /// The relay accepts mail of local users.
    pub(crate) submission: bool,
}

impl Relay {
    /// The form that rules match, with its fields in a fixed order.
    fn write(&self, out: &mut String) {
        let Self {
            ip,
            rdns,
            helo,
            by,
            ident,
            id,
            auth,
            ..
        } = self;
        let envelope_from = self
            .envelope_from
            .as_deref()
            .filter(|text| *text != "0")
            .unwrap_or_default();
        let (internal, submission) = (u8::from(self.internal), u8::from(self.submission));
        let _ = write!(
            out,
            "[ ip={ip} rdns={rdns} helo={helo} by={by} ident={ident} envfrom={envelope_from} \
             intl={internal} id={id} auth={auth} msa={submission} ]"
        );
    }
}

/// All relays of a message, newest first.
#[derive(Clone, Debug, Default)]
pub struct Relays {
    /// Relays in `trusted_networks`, whose fields are trusted.
    pub trusted: Vec<Relay>,
    /// All other relays.
    pub untrusted: Vec<Relay>,
    /// Relays in `internal_networks`, those of the local site.
    pub internal: Vec<Relay>,
    /// All other relays.
    pub external: Vec<Relay>,
    /// The number of `Received:` fields in no known form.
    pub unparseable: usize,
    /// The number of `Received:` fields from trusted and from internal relays, less one.
    pub(crate) last_trusted: i64,
    pub(crate) last_internal: i64,
}

/// A list of relays in the form that rules match.
pub fn as_text(relays: &[Relay]) -> String {
    let mut out = String::new();
    for (index, relay) in relays.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        relay.write(&mut out);
    }
    out
}

/// Replaces characters that are not permitted in the form that rules match.
fn without_odd_characters(text: &str) -> String {
    let is_odd = |letter: char| {
        letter.is_ascii_whitespace()
            || matches!(
                letter,
                '\0' | '\x0b' | '#' | '[' | ']' | '(' | ')' | '<' | '>' | '|'
            )
    };
    text.chars()
        .map(|letter| if is_odd(letter) { '!' } else { letter })
        .collect()
}

/// The trusted, internal and submission networks.
struct TrustedNetworks<'a> {
    trusted: &'a Networks,
    internal: &'a Networks,
    submission: &'a Networks,
    /// No networks were configured: the border of trust is estimated.
    guessed: bool,
}

impl<'a> TrustedNetworks<'a> {
    fn of(mail: &'a Mail<'_>) -> Self {
        let settings = mail.view_settings();
        let (mut trusted, mut internal) = (&settings.trusted_networks, &settings.internal_networks);
        let guessed = !trusted.configured && !internal.configured;
        if trusted.configured && !internal.configured {
            internal = trusted;
        } else if internal.configured && !trusted.configured {
            trusted = internal;
        }
        Self {
            trusted,
            internal,
            submission: &settings.submission_networks,
            guessed,
        }
    }
}

/// The state of the walk.
struct RelayWalk {
    relays: Relays,
    in_trusted: bool,
    in_internal: bool,
    found_submission: bool,
    /// Fields of programs that fetch mail restart the walk, as long as all relays were trusted.
    may_restart: bool,
}

impl Relays {
    /// Parses the relays of a message.
    pub(crate) fn read(mail: &Mail<'_>) -> Self {
        let trust = TrustedNetworks::of(mail);
        let mut walk = RelayWalk {
            relays: Self {
                last_trusted: -1,
                last_internal: -1,
                ..Self::default()
            },
            in_trusted: true,
            in_internal: true,
            found_submission: false,
            may_restart: true,
        };
        let mut scanner_envelope_from = None;
        for text in received_lines(mail) {
            let noted = scanner_envelope_from.take();
            match read_line(&text) {
                ReceivedLine::Relay(mut relay) => {
                    if let Some(noted) = noted {
                        relay.envelope_from = Some(noted);
                    }
                    walk.step(*relay, &trust);
                    continue;
                }
                ReceivedLine::Unparseable => walk.relays.unparseable += 1,
                ReceivedLine::Skipped => {}
                ReceivedLine::Scanner(envelope_from) => scanner_envelope_from = envelope_from,
                ReceivedLine::Fetched => {
                    if walk.may_restart {
                        walk.relays.trusted.clear();
                        walk.relays.internal.clear();
                        walk.relays.external.clear();
                    }
                }
            }
            walk.relays.last_trusted += i64::from(walk.in_trusted);
            walk.relays.last_internal += i64::from(walk.in_internal);
        }
        walk.relays
    }
}

/// The `Received:` fields, then the fields that contain the originating address.
fn received_lines(mail: &Mail<'_>) -> Vec<String> {
    let fields = mail.head().all(b"received").take(RECEIVED_MAX);
    let mut lines: Vec<String> = fields
        .map(|field| String::from_utf8_lossy(field.decoded()).into_owned())
        .collect();
    for name in &mail.view_settings().originating_ip_fields {
        let Some(value) = mail.head().last(name.as_bytes()) else {
            continue;
        };
        if let Some(address) = ip::find(value).and_then(|(start, end)| value.get(start..end)) {
            lines.push(format!(
                "from X-Originating-IP: {}\n",
                String::from_utf8_lossy(address)
            ));
        }
    }
    lines
}

impl RelayWalk {
    fn step(&mut self, mut relay: Relay, trust: &TrustedNetworks<'_>) {
        if self.in_trusted && !self.found_submission {
            self.decide(&mut relay, trust);
        }
        relay.internal = self.in_internal;
        if self.in_trusted {
            self.relays.trusted.push(relay.clone());
            self.may_restart = true;
            self.relays.last_trusted += 1;
        } else {
            self.relays.untrusted.push(relay.clone());
            self.may_restart = false;
        }
        if self.in_internal {
            self.relays.internal.push(relay);
            self.relays.last_internal += 1;
        } else {
            self.relays.external.push(relay);
        }
    }

    /// Whether the chain of trust extends beyond this relay.
    fn decide(&mut self, relay: &mut Relay, trust: &TrustedNetworks<'_>) {
        let authenticated = !relay.auth.is_empty() && relay.auth != "0";
        if trust.guessed {
            // Private addresses and authenticated senders are inside the border.
            if !relay.ip_private && !authenticated {
                self.in_trusted = false;
                self.in_internal = false;
            }
            return;
        }
        let address = ip::parse(relay.ip.as_bytes());
        let within =
            |networks: &Networks| address.is_some_and(|address| networks.contains(address));
        if !authenticated && !within(trust.trusted) {
            self.in_trusted = false;
            self.in_internal = false;
            return;
        }
        if self.in_internal && !authenticated && !within(trust.internal) {
            self.in_internal = false;
        }
        if within(trust.submission) {
            self.found_submission = true;
            relay.submission = true;
        }
    }
}
