//! The size of a piece of what may be larger than the engine's messages.

use async_nats::Client;

/// The most bytes of a piece. NATS servers take 1 MB by default.
const PIECE_BYTES_MAX: usize = 512 * 1024;
/// The part of a message that is not the piece: its headers, and what names the piece.
const OVERHEAD_BYTES: usize = 1024;

/// The most bytes of a piece that the connected NATS server takes.
pub(crate) fn piece_bytes_max(client: &Client) -> usize {
    let payload_max = client.server_info().max_payload;
    PIECE_BYTES_MAX
        .min(payload_max.saturating_sub(OVERHEAD_BYTES))
        .max(1)
}
