//! `[attachments]`: the limits of files that accompany messages.

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// `[attachments]`: files that accompany messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttachmentSettings {
    /// The size from which the body of a publication by ntfy's API is a file.
    pub message_max: ByteSize,
    /// The maximum size of a file. With 0 there are no attachments, and a file that is sent is the
    /// payload of its message.
    pub file_max: ByteSize,
    /// The bytes of the files of one user, or of one network without a login.
    pub client_max: ByteSize,
    /// The bytes of the files of all clients without a login.
    pub anonymous_max: ByteSize,
    /// The bytes of all files.
    pub total_max: ByteSize,
    /// The maximum number of files.
    pub files_max: usize,
    /// The time after which a file is removed.
    pub expiry: Period,
    /// The address of this server in links to files, as in `"https://push.example.org"`. Empty
    /// takes the address that the publisher used; links in messages that came by mail then have
    /// no host.
    pub base_url: String,
}

impl Default for AttachmentSettings {
    fn default() -> Self {
        Self {
            message_max: ByteSize::kibibytes(4),
            file_max: ByteSize::mebibytes(15),
            client_max: ByteSize::mebibytes(100),
            anonymous_max: ByteSize::mebibytes(2 * 1024),
            total_max: ByteSize::mebibytes(5 * 1024),
            files_max: 10_000,
            expiry: Period::seconds(3 * 3_600),
            base_url: String::new(),
        }
    }
}
