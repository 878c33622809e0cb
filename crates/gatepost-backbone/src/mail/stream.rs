//! The stream of mailboxes and the quarantine at the engine: what is written to it, and questions
//! to its leader.

use std::collections::HashSet;
use std::error::Error as _;
use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{HeaderMap, Request, header};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use gatepost_message::MessageId;

use super::piece::{MailName, MailPiece, MailPlace};
use crate::error::BackboneError;
use crate::message_size::piece_bytes_max;
use crate::settings::BackboneSettings;
use crate::stream_creation::NumberedStream;
use crate::stream_reading::StreamReader;
use crate::subjects::Subjects;

/// After so many pieces, the engine's answer is waited for, so that few wait in its queue.
const PIECES_WITHOUT_ANSWER: usize = 16;
/// The time for one answer of the engine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// The time for which the removal of a mail is kept. A node that does not read it for longer
/// compares its mail with that of the stream.
const REMOVAL_KEPT: Duration = Duration::from_hours(24);
/// The time after which a claim ends that is not renewed.
pub(super) const CLAIM_KEPT: Duration = Duration::from_secs(30);
/// The header of a message that replaces the earlier ones of its subject.
const ROLLUP: &str = "Nats-Rollup";
const ROLLUP_OF_SUBJECT: &str = "sub";
/// The use of the stream, in errors.
const ACTION: &str = "using the mailboxes of the cluster";

/// The reason why a message was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum MailRefusal {
    /// The subject has another message than expected.
    #[error("it was changed meanwhile")]
    Changed,
    /// There is no room.
    #[error("{0}")]
    Full(String),
    /// The mail has too many pieces.
    #[error("{0} bytes are too many")]
    TooLong(usize),
    /// The engine did not store it, or did not answer.
    #[error("{0}")]
    Failed(String),
}

/// The object of a claim.
#[derive(Debug, Clone)]
pub(super) enum ClaimedMail {
    /// The mailbox of a user.
    Mailbox(String),
    /// A mail in quarantine.
    Quarantined(MessageId),
}

/// The last message about a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastAbout {
    pub(super) sequence: u64,
    pub(super) is_removal: bool,
}

/// The mail that the stream has at a time.
pub(super) struct StreamContents {
    pub(super) subjects: HashSet<String>,
    pub(super) last_sequence: u64,
}

/// The stream, over one connection.
#[derive(Clone)]
pub(crate) struct MailStream {
    context: Context,
    numbered: NumberedStream,
    subjects: Subjects,
}

impl MailStream {
    /// The stream, which is made if it is not there.
    pub(super) async fn open(
        mut context: Context,
        subjects: &Subjects,
        settings: &BackboneSettings,
    ) -> Result<Self, BackboneError> {
        let config = Config {
            name: subjects.stream("MAIL"),
            description: Some("the mailboxes and the quarantine of a Gatepost cluster".to_owned()),
            subjects: vec![subjects.mailboxes()],
            storage: StorageType::File,
            num_replicas: usize::from(settings.replicas),
            allow_direct: true,
            allow_rollup: true,
            allow_message_ttl: true,
            allow_atomic_publish: true,
            ..Config::default()
        };
        context.set_timeout(ANSWERED_WITHIN);
        Ok(Self {
            numbered: NumberedStream::open(&context, config).await?,
            context,
            subjects: subjects.clone(),
        })
    }

    /// The number of the stream.
    pub(super) const fn number(&self) -> u64 {
        self.numbered.number
    }

    pub(super) fn subject(&self, name: &MailName) -> String {
        match &name.place {
            MailPlace::Mailbox(user) => self.subjects.mail(user, name.id),
            MailPlace::Quarantine => self.subjects.quarantined(name.id),
        }
    }

    /// Fails if the stream is no longer there, or if there is another one in its place; returns its
    /// bytes.
    pub(super) async fn check(&self) -> Result<u64, BackboneError> {
        let state = self.numbered.state().await.map_err(failed)?;
        Ok(state.bytes)
    }

    /// Stores a mail whose subject has its last message at `expected`, 0 for none.
    pub(super) async fn add(
        &self,
        name: &MailName,
        mail: &Bytes,
        expected: u64,
    ) -> Result<(), MailRefusal> {
        let pieces = name.pieces(mail, piece_bytes_max(&self.context.client()));
        let pieces = pieces.ok_or(MailRefusal::TooLong(mail.len()))?;
        let first = PublishMessage::build().expected_last_subject_sequence(expected);
        let subject = self.subject(name);
        if let [one] = pieces.as_slice() {
            self.publish(subject, first.payload(one.clone())).await?;
            return Ok(());
        }
        self.add_together(&subject, &pieces, expected).await
    }

    /// Stores all pieces or none.
    async fn add_together(
        &self,
        subject: &str,
        pieces: &[Bytes],
        expected: u64,
    ) -> Result<(), MailRefusal> {
        let batch = format!("mail-{:x}", MessageId::next().number());
        let headers = |place: usize| {
            let mut headers = HeaderMap::new();
            headers.insert(header::NATS_BATCH_ID, batch.as_str());
            headers.insert(header::NATS_BATCH_SEQUENCE, (place + 1).to_string());
            if place == 0 {
                let expected = expected.to_string();
                headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
            }
            headers
        };
        let client = self.context.client();
        let last = pieces.len() - 1;
        for (place, piece) in pieces[..last].iter().enumerate() {
            let (subject, headers) = (subject.to_owned(), headers(place));
            if place % PIECES_WITHOUT_ANSWER != 0 {
                let sent = client.publish_with_headers(subject, headers, piece.clone());
                sent.await.map_err(MailRefusal::failed)?;
                continue;
            }
            let request = Request::new().headers(headers).payload(piece.clone());
            let request = request.timeout(Some(ANSWERED_WITHIN));
            let answer = client.send_request(subject, request).await;
            let answer = answer.map_err(MailRefusal::failed)?.payload;
            if !answer.is_empty() {
                return Err(MailRefusal::of_answer(&answer));
            }
        }
        let mut headers = headers(last);
        headers.insert(header::NATS_BATCH_COMMIT, header::NATS_BATCH_COMMIT_FINAL);
        let message = PublishMessage::build().headers(headers);
        let message = message.payload(pieces[last].clone());
        self.publish(subject.to_owned(), message).await?;
        Ok(())
    }

    /// Removes a mail, with the bytes of its removal; returns the sequence of the removal.
    pub(super) async fn remove(&self, name: &MailName, bytes: &[u8]) -> Result<u64, MailRefusal> {
        let message = PublishMessage::build()
            .payload(name.removal(bytes))
            .header(ROLLUP, ROLLUP_OF_SUBJECT)
            .ttl(REMOVAL_KEPT);
        self.publish(self.subject(name), message).await
    }

    /// Makes a claim whose last one is at `expected`, 0 for none; returns its sequence.
    pub(super) async fn claim(
        &self,
        claimed: &ClaimedMail,
        expected: u64,
    ) -> Result<u64, MailRefusal> {
        let message = PublishMessage::build()
            .expected_last_subject_sequence(expected)
            .header(ROLLUP, ROLLUP_OF_SUBJECT)
            .ttl(CLAIM_KEPT);
        let subject = match claimed {
            ClaimedMail::Mailbox(user) => self.subjects.mailbox_claim(user),
            ClaimedMail::Quarantined(id) => self.subjects.quarantine_claim(*id),
        };
        self.publish(subject, message).await
    }

    /// Ends the claim of this sequence.
    pub(super) async fn end_claim(&self, sequence: u64) -> Result<(), BackboneError> {
        let ended = self.numbered.stream.delete_message(sequence).await;
        ended.map(drop).map_err(failed)
    }

    async fn publish(&self, subject: String, message: PublishMessage) -> Result<u64, MailRefusal> {
        let sent = self.context.send_publish(subject, message).await;
        match async { sent?.await }.await {
            Ok(stored) => Ok(stored.sequence),
            Err(error) => Err(MailRefusal::of_publish(&error)),
        }
    }

    /// The last message about a mail, at the leader of the engine.
    pub(super) async fn find(&self, name: &MailName) -> Result<Option<LastAbout>, BackboneError> {
        let subject = self.subject(name);
        let message = match self
            .numbered
            .stream
            .get_last_raw_message_by_subject(&subject)
            .await
        {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        let piece = MailPiece::read(message.payload).map_err(failed)?;
        Ok(Some(LastAbout {
            sequence: message.sequence,
            is_removal: piece.is_removal(),
        }))
    }

    /// The subjects of the mail that the stream has, and of removed mail.
    pub(super) async fn contents(&self) -> Result<StreamContents, BackboneError> {
        let listed = self
            .numbered
            .stream
            .info_with_subjects(self.subjects.all_mail());
        let listed = listed.await.map_err(failed)?;
        let last_sequence = listed.info.state.last_sequence;
        let subjects = listed.map_ok(|(subject, _)| subject).try_collect().await;
        Ok(StreamContents {
            subjects: subjects.map_err(failed)?,
            last_sequence,
        })
    }

    /// Reads the messages after this sequence, in order.
    pub(super) async fn messages_after(
        &self,
        sequence: u64,
    ) -> Result<StreamReader, BackboneError> {
        StreamReader::after(&self.numbered.stream, sequence, Vec::new(), ACTION).await
    }

    /// Whether a message of this subject is about a mail.
    pub(super) fn is_mail(&self, subject: &str) -> bool {
        let all = self.subjects.all_mail();
        subject.starts_with(all.trim_end_matches('>'))
    }
}

impl MailRefusal {
    fn failed(error: impl ToString) -> Self {
        Self::Failed(error.to_string())
    }

    fn of_publish(error: &PublishError) -> Self {
        if error.kind() == PublishErrorKind::WrongLastSequence {
            return Self::Changed;
        }
        let source = error.source();
        let source = source.and_then(|source| source.downcast_ref::<jetstream::Error>());
        source.map_or_else(|| Self::failed(error), Self::of_engine)
    }

    /// The answer to a piece that was not the last one.
    fn of_answer(answer: &[u8]) -> Self {
        let answer: Result<jetstream::response::Response<serde_json::Value>, _> =
            serde_json::from_slice(answer);
        match answer {
            Ok(jetstream::response::Response::Err { error }) => Self::of_engine(&error),
            Ok(_) => Self::failed("an answer of the engine was not expected"),
            Err(error) => Self::failed(error),
        }
    }

    fn of_engine(error: &jetstream::Error) -> Self {
        match error.error_code() {
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE => Self::Changed,
            ErrorCode::STREAM_STORE_FAILED
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::INSUFFICIENT_RESOURCES => Self::Full(error.to_string()),
            _ => Self::failed(error),
        }
    }
}

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request(ACTION, error)
}
