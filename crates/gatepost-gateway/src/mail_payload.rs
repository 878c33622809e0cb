//! The payload of a mail for subscribers, with the changes of procedures.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_mail::Mail;
use gatepost_message::{Format, Message, Properties, Verdict, edit};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A larger mail is parsed on a blocking thread: parsing it would delay this worker's connections.
pub(crate) const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The form in which a mail is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailPayload {
    /// The subject, an empty line, the readable text.
    #[default]
    Text,
    /// The mail as it arrived.
    Raw,
    /// An object: subject, from, to, date, message_id, text.
    Json,
}

impl MailPayload {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Raw => "message/rfc822",
            Self::Json => "application/json",
        }
    }
}

/// A payload, and facts about the mail that it came from.
#[derive(Default)]
pub(crate) struct RenderedPayload {
    pub(crate) payload: Bytes,
    pub(crate) subject: Option<String>,
    from: Option<String>,
    message_id: Option<String>,
    form: Option<MailPayload>,
    /// The type that a procedure gave the payload that it set.
    content_type: Option<String>,
}

impl RenderedPayload {
    /// The body of a message as its payload.
    pub(crate) fn of_body(message: &Message) -> Self {
        Self {
            payload: message.body.clone(),
            ..Self::default()
        }
    }

    /// Adds the properties that accompany the payload.
    pub(crate) fn describe(&self, properties: &mut Properties) {
        let Some(form) = self.form else { return };
        let own = self.content_type.as_deref();
        properties.content_type = Some(own.unwrap_or(form.content_type()).to_owned());
        let is_text = std::str::from_utf8(&self.payload).is_ok();
        properties.payload_is_text = (form != MailPayload::Raw && is_text).then_some(true);
        for (name, value) in [
            ("subject", &self.subject),
            ("from", &self.from),
            ("message-id", &self.message_id),
        ] {
            if let Some(value) = value {
                properties.user.push((name.to_owned(), value.clone()));
            }
        }
    }
}

/// Makes the payload of a mail; for a mail that is not delivered, only the data that the journal
/// records.
pub(crate) async fn render(
    message: &Arc<Message>,
    form: MailPayload,
    verdict: &Verdict,
) -> RenderedPayload {
    let delivers = verdict.action.delivers();
    if message.body.len() <= INLINE_BYTES_MAX || !delivers {
        return render_now(message, form, verdict);
    }
    let (shared, verdict) = (Arc::clone(message), verdict.clone());
    tokio::task::spawn_blocking(move || render_now(&shared, form, &verdict))
        .await
        // The task panicked: the mail is delivered as it arrived.
        .unwrap_or_else(|_| RenderedPayload::of_body(message))
}

/// A mail's subject, for the journal.
pub(crate) fn subject(message: &Message) -> Option<String> {
    (message.format == Format::Mail).then(|| Mail::parse(&message.body).subject())
}

fn render_now(message: &Message, form: MailPayload, verdict: &Verdict) -> RenderedPayload {
    debug_assert_eq!(message.format, Format::Mail);
    let edited = edit::apply(&message.body, &verdict.edits);
    let mail = Mail::parse(&edited);
    let subject = mail.subject();
    let mut content_type = None;
    let payload = match (form, edit::payload(&verdict.edits)) {
        _ if !verdict.action.delivers() => Bytes::new(),
        (_, Some((payload, kind))) => {
            content_type = kind.map(str::to_owned);
            payload.clone()
        }
        (MailPayload::Raw, None) => edited.clone(),
        (MailPayload::Text, None) => [&subject, "\n\n", &mail.readable_text()].concat().into(),
        (MailPayload::Json, None) => json!({
            "subject": subject,
            "from": mail.from_address(),
            "to": message.envelope.recipients,
            "date": mail.date(),
            "message_id": mail.message_id(),
            "text": mail.readable_text(),
        })
        .to_string()
        .into(),
    };
    RenderedPayload {
        payload,
        subject: Some(subject),
        from: mail.from_address(),
        message_id: mail.message_id(),
        form: Some(form),
        content_type,
    }
}
