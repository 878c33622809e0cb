//! One connection: when it reads, what it does with what it read, how it ends.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{Attachment, Close, Sink, StrayAcknowledgement};
use gatepost_message::Peer;
use gatepost_mqtt::{
    Ack, DecodeError, Frame, Outcome, Packet, PacketType, PropertiesBuffer, Property, Reason,
    Version,
};

use super::MqttContext;
use super::answers::{Answer, Answers, Ready, Step, Unstored};
use super::encoder::Framing;
use super::goodbye::Goodbye;
use super::handshake::{self, Agreed, Refused};
use super::input::{Controls, Input};
use super::publish::Publishing;
use crate::stream::Stream;
use crate::websocket::{self, Control};

/// How long a connection that we end may still be read from, so that its client sees our last
/// words instead of a reset.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

impl Sink for Stream {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::try_write(self, slices)
    }
}

/// Serves a connection until it ends. `websocket` is what came behind a WebSocket handshake, or
/// `None` for a plain connection.
pub(super) async fn run(
    stream: Stream,
    peer: Peer,
    websocket: Option<&[u8]>,
    context: Arc<MqttContext>,
) {
    let Ok(_admitted) = context.admission.admit(peer) else {
        tracing::debug!(target: "mqtt", %peer, "refused: too many connections");
        return;
    };
    let stream = Arc::new(stream);
    let (mut input, framing) = match websocket {
        Some(_) => {
            let frame_bytes_max = context.settings.packet_max.bytes() + 16;
            (Input::websocket(frame_bytes_max), Framing::WebSocket)
        }
        None => (Input::plain(), Framing::Plain),
    };
    let first = Opening {
        stream: &stream,
        framing,
        context: &context,
    };
    let timeout = context.settings.connect_timeout.duration();
    let received = websocket.unwrap_or_default();
    // Boxed, and gone after it: a task is as large as the largest thing that it ever awaits.
    let opening = Box::pin(first.open(&mut input, received));
    match tokio::time::timeout(timeout, opening).await {
        Ok(Some(agreed)) => {
            Box::pin(Connection::new(stream, framing, agreed, context.clone(), peer).serve(input))
                .await;
        }
        Ok(None) => {}
        Err(_) => tracing::debug!(target: "mqtt", %peer, "no CONNECT in time"),
    }
}

/// Before the CONNECT.
struct Opening<'a> {
    stream: &'a Arc<Stream>,
    framing: Framing,
    context: &'a Arc<MqttContext>,
}

impl Opening<'_> {
    /// Waits for the first packet, which must be CONNECT \[MQTT-3.1.0-1\].
    async fn open(&self, input: &mut Input, received: &[u8]) -> Option<Agreed> {
        let mut outcome = None;
        let mut controls = Controls::default();
        input.take_frames(received, &mut controls, |bytes| {
            self.first_packet(bytes, &mut outcome)
        });
        loop {
            if !controls.controls.is_empty() || controls.error.is_some() {
                return None; // Nothing but data is expected before the CONNECT.
            }
            match outcome {
                Some(Ok(agreed)) => return Some(agreed),
                Some(Err(refused)) => {
                    if let Some(refused) = refused {
                        self.refuse(refused).await;
                    }
                    return None;
                }
                None => {}
            }
            poll_fn(|context| self.stream.poll_read_ready(context))
                .await
                .ok()?;
            let read = input.read(self.stream, &mut controls, |bytes| {
                self.first_packet(bytes, &mut outcome)
            });
            match read {
                Ok(0) => return None,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return None,
                _ => {}
            }
        }
    }

    /// Looks for a whole CONNECT at the front of `bytes`, and returns how many it used.
    fn first_packet(
        &self,
        bytes: &[u8],
        outcome: &mut Option<Result<Agreed, Option<Refused>>>,
    ) -> usize {
        if outcome.is_some() {
            return 0;
        }
        let packet_max = self.context.settings.packet_max.as_usize();
        let frame = match Frame::split(bytes, packet_max) {
            Ok(Some(frame)) if frame.header.packet_type == PacketType::Connect => frame,
            Ok(None) if bytes.first().is_none_or(|&first| first == 0x10) => return 0,
            _ => {
                *outcome = Some(Err(None));
                return bytes.len();
            }
        };
        let decoded = Packet::decode(Version::Mqtt5, frame);
        *outcome = Some(match decoded {
            Ok(Packet::Connect(connect)) => {
                handshake::connect(&connect, self.framing, self.stream.clone(), self.context)
            }
            Ok(_) => Err(None),
            Err(error) => Err(refusal(frame.body, error)),
        });
        frame.length
    }

    async fn refuse(&self, refused: Refused) {
        let mut out = BytesMut::new();
        refused.encode(self.framing, &mut out);
        let _ = self.stream.try_write(&[IoSlice::new(&out)]);
        Box::pin(linger(self.stream)).await;
    }
}

/// What a client whose CONNECT is broken is told, if its version can be made out.
fn refusal(body: &[u8], error: DecodeError) -> Option<Refused> {
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
    (is_unknown || version == Version::Mqtt5).then_some(Refused {
        version,
        reason: error.reason,
    })
}

/// What woke the connection's task.
enum Event {
    Readable,
    Broken,
    Ended(gatepost_broker::Ended),
    /// Something that answers wait for has happened.
    Progress,
}

/// After the CONNECT.
pub(super) struct Connection {
    stream: Arc<Stream>,
    framing: Framing,
    pub(super) version: Version,
    pub(super) attachment: Attachment,
    pub(super) user: Option<Arc<str>>,
    tell_why: bool,
    packet_bytes_max: usize,
    expiry_seconds: u32,
    pub(super) context: Arc<MqttContext>,
    pub(super) peer: Peer,
    /// Most clients only listen.
    pub(super) publishing: Option<Box<Publishing>>,
    pub(super) answers: Answers,
    /// Control packets of the present batch.
    pub(super) out: BytesMut,
    /// Publishers wait for slow subscribers by not reading.
    paused: bool,
    goodbye: Option<Goodbye>,
}

impl Connection {
    fn new(
        stream: Arc<Stream>,
        framing: Framing,
        agreed: Agreed,
        context: Arc<MqttContext>,
        peer: Peer,
    ) -> Self {
        Self {
            stream,
            framing,
            version: agreed.version,
            attachment: agreed.attachment,
            user: agreed.user,
            tell_why: agreed.tell_why,
            packet_bytes_max: agreed.packet_bytes_max,
            expiry_seconds: agreed.expiry_seconds,
            context,
            peer,
            publishing: None,
            answers: Answers::default(),
            out: BytesMut::new(),
            paused: false,
            goodbye: None,
        }
    }

    async fn serve(mut self, mut input: Input) {
        tracing::debug!(target: "mqtt", peer = %self.peer,
            client = self.attachment.session().client_id(), version = %self.version, "connected");
        input.process_tail(|bytes| self.process(bytes));
        self.finish_batch();
        while self.goodbye.is_none() {
            match poll_fn(|context| self.poll_event(context)).await {
                Event::Readable => self.read(&mut input),
                Event::Broken => self.goodbye = Some(Goodbye::Lost),
                Event::Ended(why) => self.goodbye = Some(why.into()),
                Event::Progress => self.finish_batch(),
            }
        }
        let goodbye = self.goodbye.take().unwrap_or(Goodbye::Lost);
        self.end(goodbye).await;
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let stream = &self.stream;
        let ended = self
            .attachment
            .poll_ended(context, |context| stream.poll_write_ready(context));
        if let Poll::Ready(why) = ended {
            return Poll::Ready(Event::Ended(why));
        }
        if self.answers.poll_commit(context).is_ready() {
            return Poll::Ready(Event::Progress);
        }
        if let Some(publishing) = &mut self.publishing {
            if let Poll::Ready(outcome) = publishing.poll_verdict(context) {
                self.judged(outcome);
                return Poll::Ready(Event::Progress);
            }
            if self.paused && publishing.poll_relief(context).is_ready() {
                self.paused = false;
            }
        }
        if self.paused || self.is_waiting_for_answers() {
            return Poll::Pending;
        }
        match self.stream.poll_read_ready(context) {
            Poll::Ready(Ok(())) => Poll::Ready(Event::Readable),
            Poll::Ready(Err(_)) => Poll::Ready(Event::Broken),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether the client must wait for its acknowledgements before it may publish more. MQTT 5
    /// clients know the bound; others are simply not read.
    fn is_waiting_for_answers(&self) -> bool {
        let has_many_judged = self
            .publishing
            .as_ref()
            .is_some_and(|publishing| publishing.is_waiting_for_verdicts());
        has_many_judged || self.answers.len() >= usize::from(self.context.settings.receive_max)
    }

    fn read(&mut self, input: &mut Input) {
        let stream = self.stream.clone();
        let mut controls = Controls::default();
        let read = input.read(&stream, &mut controls, |bytes| self.process(bytes));
        match read {
            Ok(0) => self.goodbye = Some(Goodbye::Lost),
            Ok(_) => {
                self.attachment.heard();
                self.obey(controls);
                self.finish_batch();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.goodbye = Some(Goodbye::Lost),
        }
    }

    /// WebSocket's own frames.
    fn obey(&mut self, controls: Controls) {
        for control in controls.controls {
            match control {
                Control::Ping(payload) => {
                    self.attachment.append(|out| {
                        websocket::put_header(out, websocket::Opcode::Pong, payload.len());
                        out.extend_from_slice(&payload);
                    });
                }
                Control::Pong => {}
                Control::Close(_) => self.end_with(Goodbye::Lost),
            }
        }
        if let Some(error) = controls.error {
            tracing::debug!(target: "mqtt", peer = %self.peer, "websocket: {error}");
            self.attachment
                .append(|out| websocket::put_close(out, error.close_code()));
            self.end_with(Goodbye::Lost);
        }
    }

    pub(super) fn end_with(&mut self, goodbye: Goodbye) {
        self.goodbye.get_or_insert(goodbye);
    }

    /// Handles every whole packet in `bytes`, and returns how many bytes they have.
    fn process(&mut self, bytes: &[u8]) -> usize {
        let packet_max = self.context.settings.packet_max.as_usize();
        let mut used = 0;
        while self.goodbye.is_none() {
            let frame = match Frame::split(&bytes[used..], packet_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => return used,
                Err(error) => {
                    self.end_with(error.into());
                    break;
                }
            };
            used += frame.length;
            let handled = Packet::decode(self.version, frame)
                .map_err(Goodbye::from)
                .and_then(|packet| self.handle(packet));
            if let Err(goodbye) = handled {
                self.end_with(goodbye);
            }
        }
        bytes.len()
    }

    fn handle(&mut self, packet: Packet<'_>) -> Result<(), Goodbye> {
        match packet {
            Packet::Publish(publish) => self.publish(&publish),
            Packet::Puback(ack) => in_step(self.attachment.acknowledge(ack.packet_id)),
            Packet::Pubrec(ack) => self.received(ack),
            Packet::Pubrel(ack) => {
                self.released(ack);
                Ok(())
            }
            Packet::Pubcomp(ack) => in_step(self.attachment.finish(ack.packet_id)),
            Packet::Subscribe(subscribe) => self.subscribe(&subscribe),
            Packet::Unsubscribe(unsubscribe) => {
                self.unsubscribe(&unsubscribe);
                Ok(())
            }
            Packet::Pingreq => {
                self.answer(&Packet::Pingresp); // [MQTT-3.12.4-1]
                Ok(())
            }
            Packet::Disconnect(outcome) => Err(self.disconnected(outcome)),
            Packet::Connect(_) => Err(Goodbye::Server(
                Reason::PROTOCOL_ERROR,
                "a second CONNECT [MQTT-3.1.0-2]",
            )),
            Packet::Auth(_) => Err(Goodbye::Server(
                Reason::PROTOCOL_ERROR,
                "AUTH without an authentication method in CONNECT [MQTT-4.12.0-1]",
            )),
            Packet::Connack(_) | Packet::Suback(_) | Packet::Unsuback(_) | Packet::Pingresp => Err(
                Goodbye::Server(Reason::PROTOCOL_ERROR, "a packet that only servers send"),
            ),
        }
    }

    /// PUBREC: the second of four steps, answered by the third \[MQTT-4.3.3-4\].
    fn received(&mut self, ack: Ack<'_>) -> Result<(), Goodbye> {
        if ack.reason.is_error() {
            return in_step(self.attachment.refuse(ack.packet_id));
        }
        let released = self.attachment.release(ack.packet_id);
        let reason = match released {
            Ok(()) => Reason::SUCCESS,
            Err(_) => Reason::PACKET_IDENTIFIER_NOT_FOUND,
        };
        in_step(released)?;
        self.step(Step::Release(ack.packet_id, reason));
        Ok(())
    }

    /// PUBREL: the client's publication is released, its identifier free \[MQTT-4.3.3-11\].
    fn released(&mut self, ack: Ack<'_>) {
        let reason = if self.attachment.note_released(ack.packet_id) {
            Reason::SUCCESS
        } else {
            Reason::PACKET_IDENTIFIER_NOT_FOUND
        };
        self.step(Step::Complete(ack.packet_id, reason));
    }

    /// Answers what changed the session: at once, or when it is durable.
    pub(super) fn step(&mut self, step: Step) {
        if self.attachment.is_kept() {
            self.answers.push_step(step);
        } else {
            self.take_step(step);
        }
    }

    pub(super) fn take_step(&mut self, step: Step) {
        match step {
            Step::Release(packet_id, reason) => {
                self.answer(&Packet::Pubrel(Ack::new(packet_id, reason)));
            }
            Step::Complete(packet_id, reason) => {
                self.answer(&Packet::Pubcomp(Ack::new(packet_id, reason)));
            }
            Step::Subscribed(packet_id, reasons, retained) => {
                self.subscribed(packet_id, reasons, &retained);
            }
            Step::Unsubscribed(packet_id, reasons) => self.unsubscribed(packet_id, reasons),
        }
    }

    fn disconnected(&self, outcome: Outcome<'_>) -> Goodbye {
        let expiry_seconds = outcome.session_expiry_seconds();
        let revives = self.expiry_seconds == 0 && expiry_seconds.is_some_and(|s| s > 0);
        if revives {
            return Goodbye::Server(
                Reason::PROTOCOL_ERROR,
                "a session without expiry gets none at its end [MQTT-3.1.2-11]",
            );
        }
        Goodbye::Client {
            with_will: outcome.reason != Reason::SUCCESS,
            expiry_seconds,
        }
    }

    /// Appends a control packet to what this batch answers.
    pub(super) fn answer(&mut self, packet: &Packet<'_>) {
        let version = self.version;
        let encoded = self
            .framing
            .put(&mut self.out, |out| packet.encode(version, out));
        if let Err(error) = encoded {
            tracing::error!(target: "mqtt", "an answer cannot be written: {error}");
        }
    }

    /// Hands this batch's answers to the session, in front of what follows.
    pub(super) fn send_answers(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let out = std::mem::take(&mut self.out);
        self.attachment.append(|session| {
            if session.is_empty() {
                *session = out;
            } else {
                session.extend_from_slice(&out);
            }
        });
    }

    /// Everything that one read gave is handled: flush publications, then answers.
    fn finish_batch(&mut self) {
        let publications = self.publishing.as_mut().and_then(|publishing| {
            let ticket = publishing.flush();
            self.paused = publishing.is_congested();
            ticket
        });
        let session = self.attachment.submit();
        self.answers
            .batch_flushed(publications.as_ref(), session.as_ref());
        while let Some(ready) = self.answers.pop_ready() {
            match ready {
                Ok(Ready::Publication(answer)) => self.acknowledge(&answer),
                Ok(Ready::Step(step)) => self.take_step(step),
                Err(Unstored) => {
                    self.end_with(Goodbye::Server(
                        Reason::QUOTA_EXCEEDED,
                        "the session could not be stored; try again later",
                    ));
                    break;
                }
            }
        }
        self.send_answers();
        self.attachment.flush();
    }

    /// PUBACK or PUBREC.
    fn acknowledge(&mut self, answer: &Answer) {
        if answer.exactly_once && answer.reason.is_error() {
            // The identifier is free again, for the client and for us [MQTT-4.3.3-4].
            self.attachment.note_released(answer.packet_id);
        }
        let mut properties = PropertiesBuffer::new();
        if self.may_explain(&answer.text) {
            // A reason that is too long for a string is left out.
            let _ = properties.push(&Property::ReasonString(&answer.text));
        }
        let ack = Ack {
            packet_id: answer.packet_id,
            reason: answer.reason,
            properties: properties.as_properties(),
        };
        if answer.exactly_once {
            self.answer(&Packet::Pubrec(ack));
        } else {
            self.answer(&Packet::Puback(ack));
        }
    }

    /// Whether a reason string may go along: the client wants it, and takes packets of its size
    /// \[MQTT-3.4.2-2\].
    fn may_explain(&self, text: &str) -> bool {
        const OTHER_BYTES_MAX: usize = 32;
        self.tell_why && !text.is_empty() && text.len() + OTHER_BYTES_MAX <= self.packet_bytes_max
    }

    async fn end(mut self, goodbye: Goodbye) {
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
        self.attachment.close(&close);
        if goodbye != Goodbye::Lost {
            Box::pin(linger(&self.stream)).await;
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
            websocket::put_close(&mut out, 1000);
        }
        if !out.is_empty() {
            let _ = self.stream.try_write(&[IoSlice::new(&out)]);
        }
    }
}

/// An unknown identifier is a repetition, or a mistake that harms none; a step out of turn means
/// that the two sides no longer agree.
fn in_step(result: Result<(), StrayAcknowledgement>) -> Result<(), Goodbye> {
    match result {
        Err(StrayAcknowledgement::OutOfStep) => Err(Goodbye::Server(
            Reason::PROTOCOL_ERROR,
            "an acknowledgement out of its turn [MQTT-4.3.3-4]",
        )),
        _ => Ok(()),
    }
}

/// Says that nothing more will come, and reads on for a moment: a socket that is closed with
/// unread bytes resets the connection, and the client may lose our last words.
async fn linger(stream: &Stream) {
    let _ = rustix::net::shutdown(stream.descriptor(), rustix::net::Shutdown::Write);
    let until_end = async {
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
