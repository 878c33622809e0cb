//! From a message to its outcome: judge, publish or quarantine, journal, wait until durable.
//!
//! This is the middle of the flow. Listeners turn bytes into a message and submit it to the
//! [`Gateway`]; the gateway requests a verdict from the procedures, passes publications to the
//! broker and changes to the store, and returns a [`SubmissionOutcome`] that the listener turns
//! into its protocol's answer. The gateway knows no protocol.

mod allowed_senders;
mod attached_file;
mod attachments;
mod broker_sink;
mod counters;
mod delayed;
mod delayed_listing;
mod delayed_operations;
mod external_delivery;
mod gateway;
pub mod journal;
mod judge_times;
mod judged_mail;
mod listed_senders;
mod mail_payload;
mod publication;
mod publication_sink;
mod release;
mod sender_lists;
mod storage_failure;

pub use allowed_senders::SHARED_SENDERS;
pub use attached_file::{FileAnnouncement, FileOutcome};
pub use attachments::{
    AttachmentError, AttachmentFigures, AttachmentSettings, Attachments, KeptFile, NewAttachment,
    attachment_id,
};
pub use counters::{GatewayCounters, ListenerCounts, RuleHits};
pub use delayed::{DELAY, DelayMistake, DelayedMessages, DelayedSettings};
pub use delayed_listing::{DelayedListing, DelayedMessage};
pub use gateway::{Gateway, SubmissionOutcome};
pub use judge_times::{JudgeTimeCounts, JudgeTimes};
pub use judged_mail::JudgedMail;
pub use mail_payload::MailPayload;
pub use publication_sink::{OtherDestination, PublicationReceipt, PublicationSink};
pub use release::ReleaseTargets;
pub use sender_lists::{
    MalformedSenderPattern, SENDER_ENTRIES_MAX, SHARED_SENDER_LISTS, SenderListError,
    SenderListing, SenderPattern,
};
pub use storage_failure::StorageFailure;
