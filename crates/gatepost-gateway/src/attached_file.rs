//! Messages with a file: the file itself is judged, and subscribers get a link to it.
//!
//! The procedures see the file as the body of the message, so that no upload avoids them. It is
//! kept only if they accept it, and before the message with its link is published; if the message
//! is not delivered after all, the file is removed.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_mail::{ContentType, Mail};
use gatepost_message::{Message, Properties, Publication, edit};
use tokio::sync::watch;

use crate::attachments::{AttachmentError, Attachments, KeptFile, NewAttachment};
use crate::delayed::DELAY;
use crate::gateway::{Gateway, GatewaySubmission, SubmissionOutcome};
use crate::judged_mail::JudgedMail;
use crate::mail_payload::{self, RenderedPayload};

/// The user properties that describe a file, besides `attach` (its link) and `filename`.
const TYPE: &str = "attachment_type";
const SIZE: &str = "attachment_size";
const EXPIRES: &str = "attachment_expires";

/// Beginnings of the media types of mails in which there may be an image.
const IMAGE_CONTAINERS: [&str; 3] = ["multipart/", "image/", "message/"];

/// The announcement of a file to subscribers.
#[derive(Debug, Clone)]
pub struct FileAnnouncement {
    /// The file's name; empty names it by its type.
    pub name: String,
    /// The text of the message; without one the file is named.
    pub text: Option<String>,
    /// The user or network that sends it.
    pub client: String,
    /// Whether the client has not logged in.
    pub is_anonymous: bool,
    /// The origin at which readers reach this server, as in `https://push.example.org`.
    pub origin: String,
}

/// The result of a message with a file.
pub struct FileOutcome {
    /// The result of the submission.
    pub outcome: SubmissionOutcome,
    /// The publication that subscribers got, if it was delivered.
    pub publication: Option<Publication>,
}

impl Gateway {
    /// Permits files with messages.
    pub fn use_attachments(&self, attachments: Attachments) {
        // Only the start of the server calls this, once.
        let _ = self.attachment_slot().set(attachments);
    }

    /// The files of messages, if there may be any.
    pub fn attachments(&self) -> Option<&Attachments> {
        let attachments = self.attachment_slot().get();
        attachments.filter(|attachments| attachments.is_on())
    }

    /// Removes files when they expire, until `is_down` returns true.
    pub async fn remove_expired_files(&self, is_down: watch::Receiver<bool>) {
        // Files of earlier runs expire even if the settings permit no new ones.
        if let Some(attachments) = self.attachment_slot().get() {
            attachments.clone().run(is_down).await;
        }
    }

    /// Removes a file whose message was not delivered.
    pub async fn discard_file(&self, file: &KeptFile) {
        if let Some(attachments) = self.attachments() {
            attachments.remove(&file.id).await;
        }
    }

    /// Accepts a message whose body is a file, and publishes its announcement.
    pub async fn submit_file(
        &self,
        attachments: &Attachments,
        message: Message,
        announcement: FileAnnouncement,
    ) -> Result<FileOutcome, AttachmentError> {
        expect_earlier_delivery(attachments, &message)?;
        let message = Arc::new(message);
        let is_journaled = self.is_journaled(&message);
        let judgement = self.judge(&message).await;
        let mut edited = edit::applied(&message, &judgement.verdict.edits);
        let mut kept = None;
        if judgement.verdict.action.delivers() {
            let new = NewAttachment {
                name: announcement.name,
                content: edited.body.clone(),
                client: announcement.client,
                is_anonymous: announcement.is_anonymous,
            };
            let file = attachments.keep(new).await?;
            let link = attachments.link(&file, &announcement.origin);
            let text = announcement.text;
            let text = text.unwrap_or_else(|| format!("You received a file: {}", file.name));
            edited.body = Bytes::from(text);
            let properties = edited.properties.get_or_insert_default();
            properties.content_type = None;
            properties.payload_is_text = Some(true);
            describe(properties, &file, link);
            kept = Some(file);
        }
        let rendered = RenderedPayload::of_body(&edited);
        let submission = GatewaySubmission {
            arrived: &message,
            edited: &edited,
            topics: message.topic.as_slice(),
            is_journaled,
        };
        let outcome = self.finish(submission, None, judgement, &rendered).await;
        let delivers = outcome.verdict.action.delivers();
        if let Some(file) = kept.filter(|_| !delivers) {
            attachments.remove(&file.id).await;
        }
        Ok(FileOutcome {
            publication: edited.publication().filter(|_| delivers),
            outcome,
        })
    }

    /// Keeps the first image of a mail that is delivered to topics, and adds its link to the
    /// message. A file that cannot be kept is logged: the mail itself is more important.
    pub async fn attach_image(
        &self,
        mail: &mut JudgedMail,
        client: String,
        is_anonymous: bool,
    ) -> Option<KeptFile> {
        let attachments = self.attachments()?;
        if !mail.verdict().action.delivers() || mail.topics.is_empty() {
            return None;
        }
        let edited = edit::apply(&mail.message.body, &mail.verdict().edits);
        let (name, content) = if edited.len() <= mail_payload::INLINE_BYTES_MAX {
            first_image(&edited)?
        } else {
            let found = tokio::task::spawn_blocking(move || first_image(&edited));
            found.await.ok()??
        };
        let new = NewAttachment {
            name,
            content,
            client,
            is_anonymous,
        };
        match attachments.keep(new).await {
            Ok(file) => {
                let link = attachments.link(&file, "");
                let message = Arc::make_mut(&mut mail.message);
                describe(message.properties.get_or_insert_default(), &file, link);
                Some(file)
            }
            Err(error) => {
                let message = mail.message.id;
                tracing::warn!(target: "gateway", %message, "a mail's image is left out: {error}");
                None
            }
        }
    }
}

/// Refuses a message whose link would have expired when it is delivered.
fn expect_earlier_delivery(
    attachments: &Attachments,
    message: &Message,
) -> Result<(), AttachmentError> {
    let properties = message.properties.as_ref();
    let due = properties.and_then(|properties| properties.user_property(DELAY));
    // The listener has written the time in Unix seconds.
    let due: Option<u64> = due.and_then(|due| due.parse().ok());
    if due.is_some_and(|due| due >= attachments.expiry_unix_s()) {
        return Err(AttachmentError::ExpiresBeforeDelivery);
    }
    Ok(())
}

/// Adds the user properties that describe a file; those of the same names that the publisher
/// wrote are removed.
fn describe(properties: &mut Properties, file: &KeptFile, link: String) {
    let described = [
        ("attach", link),
        ("filename", file.name.clone()),
        (TYPE, file.content_type.clone()),
        (SIZE, file.size.to_string()),
        (EXPIRES, file.expires_unix_s.to_string()),
    ];
    let is_new = |name: &str| described.iter().all(|(new, _)| *new != name);
    properties.user.retain(|(name, _)| is_new(name));
    let described = described.map(|(name, value)| (name.to_owned(), value));
    properties.user.extend(described);
}

/// The first part of a mail whose content is an image, with its declared name.
fn first_image(mail: &[u8]) -> Option<(String, Bytes)> {
    let mail = Mail::parse(mail);
    // Most mails are text alone, and need not be divided.
    let media_type = ContentType::parse(mail.head().last(b"content-type")).media_type;
    if !IMAGE_CONTAINERS
        .iter()
        .any(|kind| media_type.starts_with(kind))
    {
        return None;
    }
    let mut leaves = mail.parts().leaves();
    let image = leaves.find(|part| {
        // Other parts are not decoded.
        part.media_type.starts_with("image/") && Attachments::is_image(part.decoded())
    })?;
    let name = image.name.as_deref().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Some((name, Bytes::copy_from_slice(image.decoded())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_real_image_of_a_mail_is_found() {
        let mail = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n\
            --b\r\nContent-Type: image/png; name=\"fake.png\"\r\n\r\n<html>\r\n\
            --b\r\nContent-Type: image/gif; name=\"hall.gif\"\r\n\
            Content-Transfer-Encoding: base64\r\n\r\nR0lGODlhAQABAAAAACw=\r\n--b--\r\n";
        let (name, content) = first_image(mail.as_bytes()).expect("an image");
        assert_eq!(name, "hall.gif");
        assert!(content.starts_with(b"GIF89a"));
        assert_eq!(first_image(b"Subject: x\r\n\r\ntext\r\n"), None);
    }
}
