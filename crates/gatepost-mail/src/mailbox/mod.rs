//! Reads messages from single files, mbox files, Maildir and other folders, and standard input.
//!
//! [`open`] returns an iterator of [`MailboxMessage`] messages over any mixture of these, in a
//! fixed order: paths as given, folders sorted by name. `gatepost scan` and `gatepost learn` use
//! it:
//!
//! ```no_run
//! use gatepost_mail::mailbox::{self, MailboxSettings};
//!
//! let paths = ["inbox.mbox".into(), "Maildir".into()];
//! for found in mailbox::open(&paths, &MailboxSettings::default()) {
//!     match found {
//!         Ok(message) => println!("{}: {} bytes", message.name, message.bytes.len()),
//!         Err(problem) => eprintln!("{problem}"),
//!     }
//! }
//! ```
//!
//! The content of a file decides its format, not its name: a file is an mbox if it begins with a
//! `From ` line and has a second one, with a date, after a blank line. A single message saved with
//! its `From ` line thus stays one message.
//!
//! Invariants: one message at a time is in memory, and at most [`MailboxSettings::message_max`]
//! bytes of it; a file that cannot be read is an item of its own ([`MailboxProblem`]), and the
//! iteration continues; symbolic links to folders are not followed, so every iteration ends.

mod boundary;
mod mbox;
mod walk;

pub use walk::{Messages, open, total_bytes};

use std::path::PathBuf;

use gatepost_settings::ByteSize;
use serde::{Deserialize, Serialize};

/// The path that denotes standard input.
pub const STANDARD_INPUT: &str = "-";

/// The settings for reading messages.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct MailboxSettings {
    /// The most bytes that are read of a message.
    pub message_max: ByteSize,
}

impl Default for MailboxSettings {
    fn default() -> Self {
        Self {
            message_max: ByteSize::mebibytes(64),
        }
    }
}

/// One message and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxMessage {
    /// The file's path; in an mbox, a colon and the message's number from 1 follow.
    pub name: String,
    /// The original message, with its `From ` line if it has one.
    pub bytes: Vec<u8>,
    /// Whether the message is longer than [`MailboxSettings::message_max`] and was cut there.
    pub cut: bool,
    /// The number of bytes that the message has in the source, for a progress bar over
    /// [`total_bytes`].
    pub source_bytes: u64,
}

/// A path that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct MailboxProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// The reason.
    pub cause: std::io::Error,
}
