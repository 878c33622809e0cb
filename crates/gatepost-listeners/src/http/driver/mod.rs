//! From a socket to requests, and from responses to a socket.
//!
//! - `lazy_connection.rs` answers the only request of a connection before its socket is registered
//!   with a reactor; `connection.rs` is a connection that continues;
//! - `head.rs`, `chunked.rs` parse HTTP/1; `encode.rs`, `output.rs`, `sending.rs` write it;
//!   `flushing.rs` writes to slow readers; `http2/` is HTTP/2, over the `h2` crate;
//! - `from_memory.rs` answers with cached pages and files, `serve_worker_page.rs` with pages that
//!   run code, `exchange.rs` everything else through the router;
//! - `live_stream.rs` and `paced_stream.rs` write subscriptions, in batches of `event_batch.rs`.

mod buffers;
pub(super) mod chunked;
mod connection;
mod encode;
mod event_batch;
mod exchange;
mod file_chunks;
mod flushing;
mod from_memory;
pub(super) mod head;
mod http2;
mod lazy_connection;
mod live_stream;
mod output;
mod paced_stream;
mod request_body;
mod sending;
mod serve_worker_page;
mod socket;
mod worker_page;

pub(super) use lazy_connection::answer_at_once;
