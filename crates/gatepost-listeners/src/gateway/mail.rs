//! What subscribers get of a message, with all that procedures changed of it.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Edit, Field, Format, Message, Properties, Verdict, edit};
use gatepost_rules::mail::Mail;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Parsing a larger mail would hold up the connections of this worker; it goes to a thread.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The form in which a mail is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailPayload {
    /// The subject, an empty line, the text that a person would read.
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

/// A payload, and what is known of the mail that it came from.
#[derive(Default)]
pub(super) struct Rendered {
    pub(super) payload: Bytes,
    pub(super) subject: Option<String>,
    from: Option<String>,
    message_id: Option<String>,
    form: Option<MailPayload>,
    /// What procedures said of a payload that they set.
    content_type: Option<String>,
    /// The user properties as procedures changed them.
    user: Option<Vec<(String, String)>>,
}

impl Rendered {
    /// Of a message that is no mail: the body, as procedures left it. Their header fields are its
    /// user properties.
    pub(super) fn payload(message: &Message, verdict: &Verdict) -> Self {
        let mut rendered = Self {
            payload: message.body.clone(),
            ..Self::default()
        };
        for edit in &verdict.edits {
            rendered.edit(message, edit);
        }
        rendered
    }

    fn edit(&mut self, message: &Message, edit: &Edit) {
        let pair = |field: &Field| (field.name().to_owned(), field.value().to_owned());
        match edit {
            Edit::PrependField(field) => self.user(message).insert(0, pair(field)),
            Edit::AppendField(field) => self.user(message).push(pair(field)),
            Edit::ReplaceField { field, occurrence } => {
                let user = self.user(message);
                if let Some(place) = find(user, field.name(), *occurrence) {
                    user[place] = pair(field);
                }
            }
            Edit::RemoveField { name, occurrence } => {
                let user = self.user(message);
                if let Some(place) = find(user, name, *occurrence) {
                    user.remove(place);
                }
            }
            Edit::ReplaceBody(body) => self.payload = body.clone(),
            Edit::SetPayload {
                payload,
                content_type,
            } => {
                self.payload = payload.clone();
                self.content_type.clone_from(content_type);
            }
        }
    }

    /// The user properties, from now on apart from the message's own.
    fn user(&mut self, message: &Message) -> &mut Vec<(String, String)> {
        self.user.get_or_insert_with(|| {
            let properties = message.properties.as_deref();
            properties.map_or_else(Vec::new, |properties| properties.user.clone())
        })
    }

    /// Adds what subscribers are told beside the payload.
    pub(super) fn describe(&self, properties: &mut Properties) {
        if let Some(user) = &self.user {
            properties.user.clone_from(user);
        }
        if let Some(content_type) = &self.content_type {
            properties.content_type = Some(content_type.clone());
        }
        // A publisher's word about the bytes does not hold for other bytes.
        let is_text = std::str::from_utf8(&self.payload).is_ok();
        if properties.payload_is_text == Some(true) && !is_text {
            properties.payload_is_text = None;
        }
        let Some(form) = self.form else { return };
        if self.content_type.is_none() {
            properties.content_type = Some(form.content_type().to_owned());
        }
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

/// Where the user property of this name stands for the `occurrence`th time, counted from 1.
fn find(user: &[(String, String)], name: &str, occurrence: u32) -> Option<usize> {
    let named = |place: &usize| user[*place].0.eq_ignore_ascii_case(name);
    let mut places = (0..user.len()).filter(named);
    places.nth((occurrence as usize).checked_sub(1)?)
}

/// Makes the payload of a mail; of one that is not delivered only what the journal notes.
pub(super) async fn render(
    message: &Arc<Message>,
    form: MailPayload,
    verdict: &Verdict,
) -> Rendered {
    let delivers = verdict.action.delivers();
    if message.body.len() <= INLINE_BYTES_MAX || !delivers {
        return render_now(message, form, verdict);
    }
    let (shared, verdict) = (Arc::clone(message), verdict.clone());
    tokio::task::spawn_blocking(move || render_now(&shared, form, &verdict))
        .await
        // The task panicked: the mail itself is still there to be delivered.
        .unwrap_or_else(|_| Rendered::payload(message, &Verdict::accept()))
}

/// A mail's subject, for the journal.
pub(super) fn subject(message: &Message) -> Option<String> {
    (message.format == Format::Mail).then(|| Mail::parse(&message.body).subject())
}

fn render_now(message: &Message, form: MailPayload, verdict: &Verdict) -> Rendered {
    debug_assert_eq!(message.format, Format::Mail);
    let edited = edit::apply(&message.body, &verdict.edits);
    let mail = Mail::parse(&edited);
    let mut content_type = None;
    let payload = match (form, edit::payload(&verdict.edits)) {
        _ if !verdict.action.delivers() => Bytes::new(),
        (_, Some((payload, kind))) => {
            content_type = kind.map(str::to_owned);
            payload.clone()
        }
        (MailPayload::Raw, None) => edited.clone(),
        (MailPayload::Text, None) => {
            format!("{}\n\n{}", mail.subject(), mail.readable_text()).into()
        }
        (MailPayload::Json, None) => json!({
            "subject": mail.subject(),
            "from": mail.from_address(),
            "to": message.envelope.recipients,
            "date": mail.date(),
            "message_id": mail.message_id(),
            "text": mail.readable_text(),
        })
        .to_string()
        .into(),
    };
    Rendered {
        payload,
        subject: Some(mail.subject()),
        from: mail.from_address(),
        message_id: mail.message_id(),
        form: Some(form),
        content_type,
        user: None,
    }
}
