//! The size of messages that the connected NATS server takes, and of pieces of what may be larger.

use async_nats::Client;

/// The most bytes of a piece. NATS servers take 1 MB by default.
const PIECE_BYTES_MAX: usize = 512 * 1024;
/// The part of a message that is not its content: headers, which count towards the server's
/// `max_payload`, and what names a piece.
const OVERHEAD_BYTES: usize = 1024;

/// The most bytes of the content of a message with headers.
pub(crate) fn content_bytes_max(client: &Client) -> usize {
    let payload_max = client.server_info().max_payload;
    payload_max.saturating_sub(OVERHEAD_BYTES)
}

/// The most bytes of a piece.
pub(crate) fn piece_bytes_max(client: &Client) -> usize {
    PIECE_BYTES_MAX.min(content_bytes_max(client)).max(1)
}
