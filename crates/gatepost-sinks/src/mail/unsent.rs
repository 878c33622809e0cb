//! Mail of the server itself that is given up.

use std::future::Future;
use std::pin::Pin;

use super::MailSubmission;

/// The storage of a mail; the error says why it failed.
pub type Keeping<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A place in which an operator finds mail that was given up.
pub trait UnsentMail: Send + Sync {
    /// Stores a mail, whose recipients are those that did not get it, and the reason. Done when it
    /// is on disk.
    fn keep<'a>(&'a self, mail: &'a MailSubmission, reason: &'a str) -> Keeping<'a>;
}
