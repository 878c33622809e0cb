//! How a connection ends: the will, the last words, and the wait until they are heard.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::Close;

use super::connection::Connection;
use super::encoder::Framing;
use super::goodbye::Goodbye;
use super::handshake;
use crate::stream::Stream;
use crate::websocket;

/// How long a connection that we end may still be read from, so that its client sees our last
/// words instead of a reset.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

impl Connection {
    /// Ends by what was said, or else by the loss of the connection.
    pub(super) async fn end(mut self: Box<Self>) {
        let goodbye = self.goodbye.take().unwrap_or(Goodbye::Lost);
        tracing::debug!(target: "mqtt", peer = %self.peer,
            client = self.attachment.session().client_id(), ?goodbye, "disconnected");
        let close = match &goodbye {
            Goodbye::Client {
                with_will,
                expiry_seconds,
            } => Close {
                with_will: *with_will,
                expiry: expiry_seconds.map(handshake::expiry),
            },
            Goodbye::Lost | Goodbye::Server(..) | Goodbye::Refused(_) => Close {
                with_will: true,
                expiry: None,
            },
        };
        if self.attachment.may_say_goodbye() {
            self.say_goodbye(&goodbye);
        }
        if let Some(publishing) = self.publishing.take() {
            publishing.finish_in_background(self.context.gateway.clone());
        }
        let Self {
            attachment, stream, ..
        } = *self;
        attachment.close(&close);
        if goodbye != Goodbye::Lost {
            linger(&stream).await;
        }
    }

    /// The last words; whoever does not take them at once does not get them.
    fn say_goodbye(&self, goodbye: &Goodbye) {
        let mut out = BytesMut::new();
        self.framing.put(&mut out, |out| {
            let tell_why = self.may_explain(goodbye.text());
            goodbye.encode(self.version, tell_why, out);
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
/// unread bytes resets the connection, and the client may lose our last words.
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
