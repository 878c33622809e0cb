//! Messages out of what people keep mail in: single files, mbox files, Maildir and other folders,
//! standard input.
//!
//! [`open`] gives an iterator of [`Found`] messages over any mixture of these, in a fixed order:
//! paths as given, folders sorted by name. It is what `gatepost scan` and `gatepost learn` read
//! from; an outside user needs nothing else:
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
//! What a file holds is told by its content, not its name: it is an mbox if it begins with a
//! `From ` line and has a second one, with a date, after a blank line. A single message saved with
//! its `From ` line thus stays one message.
//!
//! Invariants: one message at a time is in memory, and of a message at most
//! [`MailboxSettings::message_max`] bytes; what cannot be read is an item of its own
//! ([`MailboxProblem`]) and the rest goes on; symbolic links to folders are not followed, so that a
//! walk ends.

mod boundary;
mod mbox;
mod walk;

pub use walk::{Messages, open, total_bytes};

use std::path::PathBuf;

use gatepost_settings::ByteSize;
use serde::{Deserialize, Serialize};

/// The path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// How messages are read.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct MailboxSettings {
    /// Of a larger message only so many bytes are read.
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
pub struct Found {
    /// The file's path; in an mbox, a colon and the message's number from 1 follow.
    pub name: String,
    /// The message as it stands there, with its `From ` line if it has one.
    pub bytes: Vec<u8>,
    /// Whether the message is longer than [`MailboxSettings::message_max`] and was cut there.
    pub cut: bool,
    /// How many bytes of the source it took, for a progress bar over [`total_bytes`].
    pub source_bytes: u64,
}

/// What could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct MailboxProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub cause: std::io::Error,
}
