//! Reading from a connection, and the end of its turn.

use std::io;

use gatepost_mqtt::Reason;

use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use super::input::{ControlFrames, MqttInput};
use super::work_turn::WorkTurn;
use crate::websocket::{self, ControlFrame};

impl MqttConnection {
    /// Lets other connections have their turn, then handles the packets that were read before.
    pub(super) async fn begin_turn(&mut self, input: &mut MqttInput) {
        tokio::task::yield_now().await;
        self.turn = WorkTurn::default();
        input.process_tail(|bytes| self.process(bytes));
        self.finish_batch();
    }

    /// Whether the client must wait for its acknowledgements before it may publish more. MQTT 5
    /// clients know the bound; others are simply not read.
    pub(super) fn is_waiting_for_answers(&self) -> bool {
        let has_many_judged = self
            .publishing
            .as_ref()
            .is_some_and(|publishing| publishing.is_waiting_for_verdicts());
        has_many_judged || self.acknowledgements.len() >= self.context.settings.receive_max()
    }

    pub(super) fn read(&mut self, input: &mut MqttInput) {
        let stream = self.stream.clone();
        let mut controls = ControlFrames::default();
        let read = input.read(&stream, &mut controls, |bytes| self.process(bytes));
        match read {
            Ok(0) => self.ended_by = Some(ConnectionEnd::Lost),
            Ok(_) => {
                self.attachment.note_activity();
                let lease = || self.context.limits.in_flight.lease(self.peer);
                if input.reserve(lease).is_err() {
                    self.end_with(ConnectionEnd::Server(
                        Reason::QUOTA_EXCEEDED,
                        "too many bytes are in flight; try again later",
                    ));
                }
                self.handle_controls(controls);
                self.finish_batch();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.ended_by = Some(ConnectionEnd::Lost),
        }
    }

    /// Handles WebSocket's control frames.
    fn handle_controls(&mut self, controls: ControlFrames) {
        for control in controls.controls {
            match control {
                ControlFrame::Ping(payload) => {
                    self.attachment.append(|out| {
                        websocket::put_header(out, websocket::Opcode::Pong, payload.len());
                        out.extend_from_slice(&payload);
                    });
                }
                ControlFrame::Pong => {}
                ControlFrame::Close(code) => {
                    self.close_code = code.unwrap_or(self.close_code);
                    self.end_with(ConnectionEnd::Lost);
                }
            }
        }
        if let Some(error) = controls.error {
            tracing::debug!(target: "mqtt", peer = %self.peer, "websocket: {error}");
            self.close_code = error.close_code();
            self.end_with(ConnectionEnd::Lost);
        }
    }
}
