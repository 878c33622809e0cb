//! Limits on how much of a message's structure is parsed.
//!
//! Nothing is refused beyond a limit: the rest stays unparsed text, and the view reports this where
//! rules ask for it (`TRUNCATED_HEADERS`, `too many parts`). The defaults are far above what mail
//! programs write, and low enough to bound the time of parsing.

use gatepost_settings::ByteSize;
use serde::{Deserialize, Serialize};

/// The settings under `[rules.mail]`.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct MailLimits {
    /// The most header fields that are read of one message or part; later ones are ignored.
    pub header_fields_max: usize,
    /// The most levels of nested MIME parts; deeper ones stay one text.
    pub nesting_max: u32,
    /// The most parts that are read of one multipart.
    pub parts_per_multipart_max: usize,
    /// The most parts that are read of a whole message.
    pub parts_max: usize,
    /// The size up to which an HTML part is rendered.
    pub html_size_max: ByteSize,
}

impl Default for MailLimits {
    fn default() -> Self {
        Self {
            header_fields_max: 10_000,
            nesting_max: 20,
            parts_per_multipart_max: 1_000,
            parts_max: 20_000,
            html_size_max: ByteSize::mebibytes(8),
        }
    }
}
