//! The end of a connection: the will, the last packet, and the wait until it is received.

use std::io::IoSlice;

use bytes::BytesMut;
use gatepost_bans::Offence;
use gatepost_broker::ConnectionClose;

use super::connect_properties;
use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use super::encoder::PacketFraming;
use crate::linger::linger;
use crate::websocket;

impl MqttConnection {
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
