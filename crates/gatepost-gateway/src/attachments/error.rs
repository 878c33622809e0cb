//! The reasons why a file is not kept.

use gatepost_settings::ByteSize;
use gatepost_store::StoreError;

/// The reason why a file was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachmentError {
    /// The file is larger than `attachments.file_max`.
    #[error("an attachment has at most {0} (attachments.file_max)")]
    FileTooLarge(ByteSize),
    /// The client's files would have more bytes than `attachments.client_max`.
    #[error("the attachments of one client have at most {0} (attachments.client_max)")]
    ClientQuota(ByteSize),
    /// The named limit of all files is reached.
    #[error("no attachment can be stored now: the limit {0} is reached")]
    Full(&'static str),
    /// The disk would have less space left than `store.reserve`.
    #[error("no attachment can be stored now: the disk is nearly full")]
    DiskFull,
    /// The message is to be delivered after its file has expired.
    #[error("the attachment would expire before the message is delivered")]
    ExpiresBeforeDelivery,
    /// The file or its record could not be written.
    #[error("the attachment could not be stored: {0}")]
    NotStored(String),
}

impl From<StoreError> for AttachmentError {
    fn from(error: StoreError) -> Self {
        if error.is_disk_full() {
            Self::DiskFull
        } else {
            Self::NotStored(error.to_string())
        }
    }
}

impl From<std::io::Error> for AttachmentError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::StorageFull {
            Self::DiskFull
        } else {
            Self::NotStored(error.to_string())
        }
    }
}
