//! How a connection ends: the will, the last packet, and the wait until it is received.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::Close;

use super::connection::Connection;
use super::connection_end::ConnectionEnd;
use super::encoder::Framing;
use super::handshake;
use crate::stream::Stream;
use crate::websocket;

/// How long a connection that we end may still be read from, so that its client receives the
/// last packet instead of a reset.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

impl Connection {
    /// Ends the connection for the reason that was set, or else as lost.
    pub(super) async fn end(mut self: Box<Self>) {
        let end = self.ended_by.take().unwrap_or(ConnectionEnd::Lost);
        tracing::debug!(target: "mqtt", peer = %self.peer,
            client = self.attachment.session().client_id(), ?end, "disconnected");
        let close = match &end {
            ConnectionEnd::Client {
                with_will,
                expiry_seconds,
            } => Close {
                with_will: *with_will,
                expiry: expiry_seconds.map(handshake::expiry),
            },
            ConnectionEnd::Lost | ConnectionEnd::Server(..) | ConnectionEnd::Refused(_) => Close {
                with_will: true,
                expiry: None,
            },
        };
        if self.attachment.may_send_last_frame() {
            self.send_disconnect(&end);
        }
        if let Some(publishing) = self.publishing.take() {
            let on_reject = self.context.settings.on_reject;
            publishing.finish_in_background(self.context.gateway.clone(), on_reject);
        }
        let Self {
            attachment, stream, ..
        } = *self;
        attachment.close(&close);
        if end != ConnectionEnd::Lost {
            linger(&stream).await;
        }
    }

    /// Sends the last packet, as far as the socket takes it at once.
    fn send_disconnect(&self, end: &ConnectionEnd) {
        let mut out = BytesMut::new();
        self.framing.put(&mut out, |out| {
            let wants_reasons = self.may_explain(end.text());
            end.encode(self.version, wants_reasons, out);
        });
        if self.framing == Framing::WebSocket {
            websocket::put_close(&mut out, self.close_code);
        }
        if !out.is_empty() {
            let _ = self.stream.try_write(&[IoSlice::new(&out)]);
        }
    }
}

/// Says that nothing more will come, and reads on for a moment: a socket that is closed with
/// unread bytes resets the connection, and the client may lose the last packet.
pub(super) async fn linger(stream: &Stream) {
    let until_end = async {
        // Whatever fails here, the client is gone.
        let _ = poll_fn(|context| stream.poll_finish(context)).await;
        let mut left = LINGER_BYTES_MAX;
        let mut buffer = [0; 1024];
        while left > 0 {
            if poll_fn(|context| stream.poll_read_ready(context))
                .await
                .is_err()
            {
                return;
            }
            match stream.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, until_end).await;
}
