//! What an operator does by `/admin`: looks into the journal and the quarantine, releases,
//! deletes, teaches. The binary wires it to store, gateway and learner.

use gatepost_message::{Action, MessageId, Verdict};
use gatepost_pages::Promise;
use serde_json::Value;

/// What a search in the journal asks for; what is empty asks for nothing.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// A part of subject, sender, recipient, topic, reason, rule or peer, in any case.
    pub text: String,
    /// Only those with this verdict.
    pub verdict: Option<Action>,
    /// How many to give, newest first.
    pub count: usize,
}

/// A message in quarantine.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// Its story, as the journal has it.
    pub story: Value,
    /// The bytes as they arrived.
    pub source: bytes::Bytes,
    /// What a person would read of it, without markup.
    pub text: String,
}

/// What a message is to be learned as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lesson {
    /// Nobody wanted it.
    Spam,
    /// Somebody did.
    Ham,
}

/// A change that was made through `/admin`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminChange {
    /// The user who made it; `None` without a login.
    pub user: Option<String>,
    /// Where the request came from.
    pub peer: gatepost_message::Peer,
    /// Method and path.
    pub action: String,
    /// The request's body, without passwords.
    pub details: Value,
}

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// There is no such message.
    #[error("there is no such message")]
    NotFound,
    /// It has no topic, so there is nowhere to release it to.
    #[error("the message has no topic")]
    NoTopic,
    /// It came without a sender (a bounce), so there is nobody to allow.
    #[error("the message has no sender")]
    NoSender,
    /// Something behind did not do its part.
    #[error("{0}")]
    Failed(String),
}

/// What an operation gives.
pub type Done<'a, T> = Promise<'a, Result<T, OperationError>>;

/// The operator's part of the rooms.
pub trait Operations: Send + Sync {
    /// Writes a change to the audit log.
    fn audit(&self, change: AdminChange) -> Done<'_, ()>;

    /// The last changes of the audit log, newest first.
    fn changes(&self, count: usize) -> Done<'_, Vec<Value>>;

    /// Judged messages, newest first, as the journal has them.
    fn messages(&self, search: Search) -> Done<'_, Vec<Value>>;

    /// One message's story, with what became of it at each subscriber (`steps`), as far as that
    /// is remembered.
    fn story(&self, id: MessageId) -> Done<'_, Value>;

    /// The stories of the messages in quarantine, newest first.
    fn quarantine(&self, count: usize) -> Done<'_, Vec<Value>>;

    /// One of them, whole.
    fn quarantined(&self, id: MessageId) -> Done<'_, Quarantined>;

    /// Publishes it as if it had been accepted, and takes it out of quarantine; the number of
    /// subscribers that it was handed to.
    fn release(&self, id: MessageId) -> Done<'_, (Verdict, u64)>;

    /// Deletes it.
    fn delete(&self, id: MessageId) -> Done<'_, ()>;

    /// Learns it; what came of that, in a word.
    fn learn(&self, id: MessageId, lesson: Lesson) -> Done<'_, &'static str>;

    /// Lets mail from the sender of a quarantined one pass from now on; gives the sender.
    fn allow_sender_of(&self, id: MessageId) -> Done<'_, String>;

    /// Lets mail from this address pass from now on, or no longer.
    fn allow_sender(&self, address: String, allowed: bool) -> Done<'_, ()>;

    /// The addresses whose mail passes, sorted.
    fn allowed_senders(&self) -> Vec<String>;

    /// How many rules there are, the `count` that hit most, and those that cannot run.
    fn rules(&self, count: usize) -> Done<'_, Value>;

    /// The rules that take longest on the mail that was kept last.
    fn slowest_rules(&self, count: usize) -> Done<'_, Value>;

    /// Reads the config, rules and procedures anew, and tells what changes. Where it only checks,
    /// or where it is not `possible`, what runs stays.
    fn reload(&self, only_checks: bool) -> Done<'_, Value>;
}
