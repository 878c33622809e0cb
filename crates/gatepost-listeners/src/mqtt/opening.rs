//! A connection before it has a session: the packets of CONNECT, authentication and CONNACK.
//!
//! The broker is not used before the sender is authenticated. The whole exchange, including proofs
//! and password checks, takes no longer than `connect_timeout`.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::BytesMut;
use gatepost_bans::Offence;
use gatepost_message::Peer;
use gatepost_mqtt::{DecodeError, Frame, Packet, PacketType, Reason, Version};
use gatepost_users::{ListenerAuth, PeerAccount};

use super::connect_properties::ConnectRefusal;
use super::encoder::PacketFraming;
use super::input::{ControlFrames, MqttInput};
use super::{MqttContext, WebSocketStart};
use crate::linger::linger;
use crate::stream::Stream;
use crate::websocket::{self, ControlFrame, Opcode, WebSocketError, whole_frame};

/// RFC 6455, section 7.4.1.
const NORMAL_CLOSURE: u16 = 1000;

/// A connection before its CONNECT is answered.
pub(super) struct OpeningConnection<'a> {
    pub(super) stream: &'a Arc<Stream>,
    pub(super) framing: PacketFraming,
    pub(super) context: &'a Arc<MqttContext>,
    pub(super) peer: Peer,
    /// `None` where no login is needed.
    pub(super) auth: Option<&'a ListenerAuth>,
    /// The result of a WebSocket's handshake; `None` for a plain connection.
    pub(super) handshake: Option<WebSocketStart<'a>>,
}

impl OpeningConnection<'_> {
    /// The authentication of the account that the connection is of. The handshake of a WebSocket
    /// has settled whether it counts as local.
    pub(super) fn of_account<'a>(&self, auth: &'a ListenerAuth) -> Cow<'a, ListenerAuth> {
        match self.framing {
            PacketFraming::WebSocket => Cow::Borrowed(auth),
            PacketFraming::Plain => auth.for_account(self.peer, || {
                PeerAccount::of(self.peer, self.stream.descriptor())
            }),
        }
    }

    /// Answers a connection beyond the listener's limits, before any login.
    pub(super) async fn refuse_over_limit(&self, input: &mut MqttInput, received: &[u8]) {
        let mut controls = ControlFrames::default();
        input.take_frames(received, &mut controls, |_| 0);
        if self.handle_controls(controls).await.is_none() {
            return;
        }
        let Some(bytes) = self.packet(input, PacketType::Connect).await else {
            return;
        };
        if let Some(frame) = whole(&bytes)
            && let Ok(Packet::Connect(connect)) = Packet::decode(Version::Mqtt5, frame)
        {
            let (version, reason) = (connect.version, Reason::QUOTA_EXCEEDED);
            self.refuse(ConnectRefusal { version, reason }).await;
        }
    }

    /// The next packet, which must be of this type; before the CONNACK only packets of the login
    /// are permitted \[MQTT-3.1.2-30\].
    pub(super) async fn packet(
        &self,
        input: &mut MqttInput,
        packet_type: PacketType,
    ) -> Option<Vec<u8>> {
        let settings = &self.context.settings;
        let packet_max = settings
            .connect_max
            .as_usize()
            .min(settings.packet_max.as_usize());
        let mut found = FirstPacket::Unfinished;
        input.process_tail(|bytes| found.take_packet(bytes, packet_type, packet_max));
        loop {
            match found {
                FirstPacket::Packet(bytes) => return Some(bytes),
                FirstPacket::Other => {
                    self.note_fault();
                    return None;
                }
                FirstPacket::Unfinished => {}
            }
            poll_fn(|context| self.stream.poll_read_ready(context))
                .await
                .ok()?;
            let mut controls = ControlFrames::default();
            let read = input.read(self.stream, &mut controls, |bytes| {
                found.take_packet(bytes, packet_type, packet_max)
            });
            match read {
                Ok(0) => return None,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return None,
                _ => self.handle_controls(controls).await?,
            }
        }
    }

    pub(super) fn note_fault(&self) {
        let admission = &self.context.limits.admission;
        admission.offended(self.peer, Offence::ProtocolFault);
    }

    /// Answers WebSocket's control frames, which may come at any time (RFC 6455, section 5.5);
    /// returns `None` if the connection ends.
    pub(super) async fn handle_controls(&self, controls: ControlFrames) -> Option<()> {
        let mut out = BytesMut::new();
        let mut close_code = controls.error.map(WebSocketError::close_code);
        for control in controls.controls {
            match control {
                ControlFrame::Ping(payload) => {
                    out.extend_from_slice(&whole_frame(Opcode::Pong, &payload));
                }
                ControlFrame::Pong => {}
                ControlFrame::Close(code) => {
                    close_code = Some(code.unwrap_or(NORMAL_CLOSURE));
                    break;
                }
            }
        }
        if let Some(code) = close_code {
            websocket::put_close(&mut out, code);
        }
        if !out.is_empty() {
            // If the client does not accept it, the connection is lost, and the next read reports
            // that.
            let _ = self.stream.try_write(&[IoSlice::new(&out)]);
        }
        if close_code.is_some() {
            Box::pin(linger(self.stream)).await;
            return None;
        }
        Some(())
    }

    /// Writes a packet that fits into any socket's buffer.
    pub(super) fn send(&self, write: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        self.framing.put(&mut out, write);
        // If the client does not accept it, the connection is lost, and the next read reports that.
        let _ = self.stream.try_write(&[IoSlice::new(&out)]);
    }

    pub(super) async fn refuse(&self, refusal: ConnectRefusal) {
        self.send(|out| refusal.encode(out));
        Box::pin(linger(self.stream)).await;
    }
}

/// The packet at the front of the bytes received so far.
enum FirstPacket {
    Unfinished,
    /// A complete packet.
    Packet(Vec<u8>),
    /// Bytes of another packet type.
    Other,
}

impl FirstPacket {
    /// Takes a whole packet from the front of `bytes`, and returns its length, or 0 if it is not
    /// complete.
    fn take_packet(&mut self, bytes: &[u8], packet_type: PacketType, packet_max: usize) -> usize {
        if !matches!(self, Self::Unfinished) {
            return 0;
        }
        let first_byte = packet_type.first_byte();
        match Frame::split(bytes, packet_max) {
            Ok(Some(frame)) if frame.header.packet_type == packet_type => {
                *self = bytes
                    .get(..frame.length)
                    .map_or(Self::Other, |packet| Self::Packet(packet.to_vec()));
                frame.length
            }
            Ok(None) if bytes.first().is_none_or(|&first| first == first_byte) => 0,
            _ => {
                *self = Self::Other;
                bytes.len()
            }
        }
    }
}

/// The frame of bytes that were found to contain a complete one.
pub(super) fn whole(bytes: &[u8]) -> Option<Frame<'_>> {
    Frame::split(bytes, bytes.len()).ok().flatten()
}

/// The answer to a malformed CONNECT, if its version can be determined.
pub(super) fn refusal(body: &[u8], error: DecodeError) -> Option<ConnectRefusal> {
    let level = match body {
        [0, 4, b'M', b'Q', b'T', b'T', level, ..]
        | [0, 6, b'M', b'Q', b'I', b's', b'd', b'p', level, ..] => *level,
        _ => return None,
    };
    let is_unknown = error.reason == Reason::UNSUPPORTED_PROTOCOL_VERSION;
    let version = if level & 0x7F >= 5 {
        Version::Mqtt5
    } else {
        Version::Mqtt311
    };
    // 3.1.1 has no code for a malformed CONNECT: the connection is only closed [MQTT-3.1.4-1].
    (is_unknown || version == Version::Mqtt5).then_some(ConnectRefusal {
        version,
        reason: error.reason,
    })
}
