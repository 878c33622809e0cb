//! `/autoreply`: answers mail automatically, as RFC 3834 demands: once in a while to each sender,
//! only to people, never to mail of another program, and only to the envelope's sender.

use std::path::PathBuf;
use std::sync::Arc;

use gatepost_mail::{HeaderSelector, Mail};
use gatepost_message::{Action, Format, Message, MessageId, Verdict};
use gatepost_settings::Period;
use gatepost_store::StoredValue;
use serde::{Deserialize, Serialize};

use crate::host::{ProcedureMail, Resources};
use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// The space of values that records the answered senders.
const SPACE: &str = "/autoreply";

/// `[procedure."/autoreply"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct AutoreplySettings {
    /// The sender of the reply; if empty, the recipient of the message.
    pub from: String,
    /// The subject; `{subject}` is that of the mail.
    pub subject: String,
    /// The text.
    pub text: String,
    /// A file with the text, used in place of `text`.
    pub file: Option<PathBuf>,
    /// The time for which a sender who was answered gets no other reply.
    pub every: Period,
    /// Senders that are remembered at once; when they are reached, further ones get no reply.
    pub senders_max: usize,
}

impl Default for AutoreplySettings {
    fn default() -> Self {
        Self {
            from: String::new(),
            subject: "Auto: {subject}".to_owned(),
            text: String::new(),
            file: None,
            every: Period::seconds(7 * 86_400),
            senders_max: 10_000,
        }
    }
}

pub(crate) struct Autoreply {
    settings: AutoreplySettings,
    text: String,
    resources: Arc<Resources>,
}

impl Autoreply {
    pub(crate) fn new(
        settings: AutoreplySettings,
        resources: &Arc<Resources>,
    ) -> Result<Self, String> {
        let text = match &settings.file {
            None => settings.text.clone(),
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| format!("{}: {error}", file.display()))?,
        };
        Ok(Self {
            settings,
            text,
            resources: Arc::clone(resources),
        })
    }

    fn reply(&self, message: &Message, mail: &Mail<'_>, to: &str, own: &str) -> ProcedureMail {
        let clean = |text: &str| text.replace(char::is_control, " ");
        let from = match self.settings.from.as_str() {
            "" => own,
            from => from,
        };
        let subject = self
            .settings
            .subject
            .replace("{subject}", mail.subject().trim());
        let subject = gatepost_message::EditedField::new("Subject", &subject);
        let subject = subject
            .map(|field| field.write(b"\r\n"))
            .unwrap_or_default();
        let mut text = format!("From: <{}>\r\nTo: <{}>\r\n", clean(from), clean(to));
        text += &String::from_utf8_lossy(&subject);
        if let Some(id) = mail.message_id() {
            let id = clean(id.trim());
            // RFC 3834, section 3.1.5: In-Reply-To and References, as in any reply.
            text += &["In-Reply-To: ", &id, "\r\nReferences: ", &id, "\r\n"].concat();
        }
        let host = own.rsplit_once('@').map_or("localhost", |(_, host)| host);
        let id = MessageId::next().to_string();
        text += &["Message-ID: <", &id, ".autoreply@", &clean(host), ">\r\n"].concat();
        text += &["Date: ", &date(message), "\r\n"].concat();
        text += "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n";
        text +=
            "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n";
        for line in self.text.lines() {
            text += line;
            text += "\r\n";
        }
        ProcedureMail {
            sender: String::new(), // RFC 3834, section 3.3: no answer to an answer
            recipients: vec![to.to_owned()],
            text,
        }
    }
}

/// RFC 5322, section 3.3, in universal time.
fn date(message: &Message) -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] +0000"
    );
    let time = time::OffsetDateTime::from(message.id.time());
    time.format(format).unwrap_or_default()
}

impl Procedure for Autoreply {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        let message = call.message;
        let accepted = Ok(Verdict::accept().into());
        // A suspicious message is not answered: its sender is probably forged.
        if message.format != Format::Mail || call.so_far.action != Action::Accept {
            return accepted;
        }
        let mail = Mail::parse(&message.body);
        let Some((to, own)) = correspondents(message, &mail) else {
            return accepted;
        };
        if !self.resources.mailer.can_send() {
            return Err(ProcedureFailure(
                "smarthost.server is not set, so no reply can be sent".to_owned(),
            ));
        }
        let key = format!("{}\0{}", own.to_lowercase(), to.to_lowercase());
        let values = &self.resources.host.values;
        if values.get(SPACE, key.as_bytes()).is_some() {
            return accepted;
        }
        let every = Some(self.settings.every.duration());
        // Strangers choose their senders: they must not fill the values of other procedures.
        let senders_max = self.settings.senders_max;
        values
            .set_within(
                SPACE,
                key.as_bytes(),
                StoredValue::Flag(true),
                every,
                senders_max,
            )
            .map_err(|error| ProcedureFailure(error.to_string()))?;
        self.resources
            .mailer
            .send(self.reply(message, &mail, to, own));
        accepted
    }

    /// The mail is accepted even if the reply cannot be sent.
    fn on_failure(&self) -> Action {
        Action::Accept
    }
}

/// The recipient and the sender of a reply; `None` for messages that must not be answered
/// automatically (RFC 3834, section 2).
fn correspondents<'a>(message: &'a Message, mail: &Mail<'_>) -> Option<(&'a str, &'a str)> {
    let field = |name: &str| {
        let value = mail.header(&HeaderSelector::parse(name))?;
        Some(String::from_utf8_lossy(&value).trim().to_ascii_lowercase())
    };
    let to = message
        .envelope
        .sender
        .as_deref()
        .filter(|sender| sender.contains('@'))?;
    let automatic = field("Auto-Submitted").is_some_and(|value| !value.starts_with("no"));
    let bulk = field("Precedence").is_some_and(|value| {
        ["bulk", "list", "junk"]
            .iter()
            .any(|kind| value.starts_with(kind))
    });
    let list = [
        "List-Id",
        "List-Unsubscribe",
        "List-Post",
        "List-Help",
        "X-Auto-Response-Suppress",
        "X-Loop",
    ]
    .iter()
    .any(|name| field(name).is_some());
    if automatic || bulk || list || is_program(to) {
        return None;
    }
    // Only if the mail names the recipient, not if it was sent through a list or as a blind copy.
    let named = format!(
        "{} {}",
        field("To:addr").unwrap_or_default(),
        field("Cc:addr").unwrap_or_default()
    );
    let all = [
        field("To").unwrap_or_default(),
        field("Cc").unwrap_or_default(),
        named,
    ]
    .join(" ");
    let own = message.envelope.recipients.iter().find(|own| {
        let own = own.to_lowercase();
        all.split([' ', ',', '<', '>', ';', '\n', '\t', '"'])
            .any(|word| word == own)
    })?;
    // A recipient does not answer mail from the same address.
    (!own.eq_ignore_ascii_case(to)).then_some((to, own.as_str()))
}

/// Whether the address belongs to a program rather than a person.
fn is_program(address: &str) -> bool {
    let local = address
        .split('@')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let whole = [
        "mailer-daemon",
        "postmaster",
        "listserv",
        "majordomo",
        "noreply",
        "no-reply",
        "donotreply",
        "do-not-reply",
        "nobody",
        "root",
        "bounce",
        "bounces",
    ];
    whole.contains(&local.as_str())
        || local.starts_with("owner-")
        || local.ends_with("-request")
        || local.ends_with("-owner")
        || local.ends_with("-bounces")
        || local.contains("-bounces+")
        || local.contains("bounce+")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gatepost_message::{Envelope, Listener, Peer};

    fn answered(sender: &str, fields: &str) -> bool {
        let mut envelope = Envelope::new(Listener::Smtp, Peer::Local);
        envelope.sender = Some(sender.to_owned());
        envelope.recipients = vec!["Anna@example.org".to_owned()];
        let body = Bytes::from(format!("{fields}Subject: hello\r\n\r\nhi\r\n"));
        let message = Message::new(envelope, None, Format::Mail, body);
        correspondents(&message, &Mail::parse(&message.body)).is_some()
    }

    #[test]
    fn people_are_answered_and_programs_are_not() {
        let to = "To: \"Anna\" <anna@example.org>\r\n";
        for (sender, fields, expected) in [
            ("bert@example.net", to.to_owned(), true),
            (
                "bert@example.net",
                "Cc: x@example.org, anna@example.org\r\n".to_owned(),
                true,
            ),
            (
                "bert@example.net",
                format!("{to}Auto-Submitted: no\r\n"),
                true,
            ),
            ("", to.to_owned(), false),
            (
                "bert@example.net",
                "To: all@example.org\r\n".to_owned(),
                false,
            ),
            ("bert@example.net", String::new(), false),
            (
                "bert@example.net",
                format!("{to}Auto-Submitted: auto-generated\r\n"),
                false,
            ),
            (
                "bert@example.net",
                format!("{to}Precedence: Bulk\r\n"),
                false,
            ),
            (
                "bert@example.net",
                format!("{to}List-Id: <a.example>\r\n"),
                false,
            ),
            (
                "news-bounces+anna=example.org@example.net",
                to.to_owned(),
                false,
            ),
            ("MAILER-DAEMON@example.net", to.to_owned(), false),
            ("owner-list@example.net", to.to_owned(), false),
            ("anna@example.org", to.to_owned(), false),
        ] {
            assert_eq!(answered(sender, &fields), expected, "{sender} {fields:?}");
        }
    }
}
