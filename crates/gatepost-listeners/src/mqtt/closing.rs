//! The end of a connection: what the client still sent, the will, the last packet, and the wait
//! until it is received.

use std::future::poll_fn;
use std::io::IoSlice;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_bans::Offence;
use gatepost_broker::ConnectionClose;

use super::connect_properties;
use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use super::encoder::PacketFraming;
use super::input::MqttInput;
use crate::linger::linger;
use crate::websocket;

/// The time in which the kernel reports what it has received on a broken connection.
const REST_TIMEOUT: Duration = Duration::from_millis(100);
/// The limit on reads of a broken connection, whose client might send without end.
const REST_READS_MAX: usize = 1_000;

impl MqttConnection {
    /// Reads what the client sent before its connection broke, then ends the connection.
    ///
    /// A client that closes its socket while messages are on their way resets the connection, and
    /// the server may notice that by writing, before it has read the client's last packets: a
    /// DISCONNECT removes the will \[MQTT-3.14.4-3\], and acknowledged messages are not to be sent
    /// again. Nothing arrives after a reset, so the rest is what the kernel holds. A client that is
    /// not read at present, because others are slow or it must wait for answers, is not read here
    /// either.
    pub(super) async fn read_rest(&mut self, input: &mut MqttInput) {
        let stream = self.stream.clone();
        for _ in 0..REST_READS_MAX {
            if self.ended_by.is_some() || self.paused || self.is_waiting_for_answers() {
                break;
            }
            if self.turn.is_over() {
                self.begin_turn(input).await;
                continue;
            }
            let readable = poll_fn(|context| stream.poll_read_ready(context));
            match tokio::time::timeout(REST_TIMEOUT, readable).await {
                Ok(Ok(())) => self.read(input),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.end_with(ConnectionEnd::Lost);
    }

    /// Ends the connection for the given reason, or as lost if there is none.
    pub(super) async fn end(mut self: Box<Self>) {
        let end = self.ended_by.take().unwrap_or(ConnectionEnd::Lost);
        tracing::debug!(target: "mqtt", peer = %self.peer,
            client = self.attachment.session().client_id(), ?end, "disconnected");
        let close = match &end {
            ConnectionEnd::Client {
                with_will,
                expiry_seconds,
            } => ConnectionClose {
                with_will: *with_will,
                expiry: expiry_seconds.map(connect_properties::expiry),
            },
            ConnectionEnd::Lost | ConnectionEnd::Server(..) | ConnectionEnd::Refused(_) => {
                ConnectionClose {
                    with_will: true,
                    expiry: None,
                }
            }
        };
        if end.is_protocol_fault() {
            let admission = &self.context.limits.admission;
            admission.offended(self.peer, Offence::ProtocolFault);
        }
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

    /// Sends the last packet, as far as the socket accepts it immediately.
    fn send_disconnect(&self, end: &ConnectionEnd) {
        let mut out = BytesMut::new();
        self.framing.put(&mut out, |out| {
            let wants_reasons = self.may_explain(end.text());
            end.encode(self.version, wants_reasons, out);
        });
        if self.framing == PacketFraming::WebSocket {
            websocket::put_close(&mut out, self.close_code);
        }
        if !out.is_empty() {
            let _ = self.stream.try_write(&[IoSlice::new(&out)]);
        }
    }
}
