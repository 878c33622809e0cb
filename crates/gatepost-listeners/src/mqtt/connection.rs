//! One connection: its loop of reading, handling packets and writing, and its end.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{Attachment, DisconnectCause, Limit, Receipt, SubscriberSocket};
use gatepost_message::Peer;
use gatepost_mqtt::{Ack, Packet, PacketId, PropertiesBuffer, Property, Reason, Version};
use gatepost_users::Identity;

use super::acknowledgements::{
    Acknowledgements, DueAcknowledgement, PublishAcknowledgement, UnstoredChange,
};
use super::connection_end::ConnectionEnd;
use super::encoder::PacketFraming;
use super::handshake::OpenedSession;
use super::input::MqttInput;
use super::login::Reauthentication;
use super::opening::OpeningConnection;
use super::publishing::PublishingState;
use super::rights::LoginEnd;
use super::work_turn::WorkTurn;
use super::{MqttContext, WebSocketStart};
use crate::admission::{AdmissionRefusal, ConnectionPermit};
use crate::mount::MountPrefix;
use crate::stream::Stream;

/// RFC 6455, section 7.4.1.
const CLOSED_NORMALLY: u16 = 1000;

impl SubscriberSocket for Stream {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::try_write(self, slices)
    }
}

/// A connection that is served until it ends.
pub(super) type ServedConnection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Opens a connection: returns the future that serves it, or `None` if it has ended already.
/// `websocket` is `None` for a plain connection.
///
/// Opening is separate from serving, and boxed: a task is as large as the largest future that it
/// ever awaits, and the state for opening (timers, TLS, passwords) is freed afterwards.
pub(super) async fn open(
    stream: Stream,
    peer: Peer,
    websocket: Option<WebSocketStart<'_>>,
    admitted: Result<ConnectionPermit, AdmissionRefusal>,
    context: Arc<MqttContext>,
) -> Option<ServedConnection> {
    let stream = Arc::new(stream);
    let (mut input, framing) = match websocket {
        Some(_) => (MqttInput::websocket(), PacketFraming::WebSocket),
        None => (MqttInput::plain(), PacketFraming::Plain),
    };
    let first = OpeningConnection {
        stream: &stream,
        framing,
        context: &context,
        peer,
        auth: context.auth(websocket.as_ref()),
        handshake: websocket,
    };
    let timeout = context.settings.connect_timeout.duration();
    let received = websocket.map_or(&[][..], |start| start.received);
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => {
            tracing::debug!(target: "mqtt", %peer, "refused: {refusal}");
            context
                .broker
                .note_limit(Limit::Connections, &peer.to_string());
            // Such a connection is answered unless there are many: answers must not bypass the
            // limit.
            if let Ok(_admitted) = context.refusals.admit(peer) {
                let refusal = first.refuse_over_limit(&mut input, received);
                let _ = tokio::time::timeout(REFUSAL_TIMEOUT.min(timeout), refusal).await;
            }
            return None;
        }
    };
    match tokio::time::timeout(timeout, first.open(&mut input, received)).await {
        Ok(Some(opened)) => {
            let connection = MqttConnection::new(stream, framing, opened, context, peer);
            Some(Box::pin(serve(Box::new(connection), input, admitted)))
        }
        Ok(None) => None,
        Err(_) => {
            tracing::debug!(target: "mqtt", %peer, "no CONNECT in time");
            None
        }
    }
}

/// Serves a connection until it ends. The connection is boxed, since a future may hold several
/// copies of a value.
async fn serve(
    mut connection: Box<MqttConnection>,
    mut input: MqttInput,
    admitted: ConnectionPermit,
) {
    tracing::debug!(target: "mqtt", peer = %connection.peer,
        client = connection.attachment.session().client_id(),
        version = %connection.version, "connected");
    input.process_tail(|bytes| connection.process(bytes));
    connection.finish_batch();
    while connection.ended_by.is_none() {
        match poll_fn(|context| connection.poll_event(&mut input, context)).await {
            MqttWakeup::Readable => connection.read(&mut input),
            MqttWakeup::NextTurn => connection.begin_turn(&mut input).await,
            MqttWakeup::SlowPacket => connection.end_with(ConnectionEnd::Server(
                Reason::UNSPECIFIED_ERROR,
                "the rest of a packet did not arrive in time",
            )),
            MqttWakeup::Ended(DisconnectCause::Broken) => {
                Box::pin(connection.read_rest(&mut input)).await;
            }
            MqttWakeup::Ended(why) => connection.ended_by = Some(why.into()),
            MqttWakeup::Progress => connection.finish_batch(),
            MqttWakeup::Access => connection.apply_access_change(),
        }
    }
    Box::pin(connection.end()).await;
    drop(admitted);
}

/// The time in which a connection beyond the limits must send the CONNECT that is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The event that woke the connection's task.
enum MqttWakeup {
    Readable,
    /// Packets that were read wait until other connections had their turn.
    NextTurn,
    /// The rest of a packet does not arrive, or too slowly.
    SlowPacket,
    Ended(DisconnectCause),
    /// A commit or verdict that acknowledgements wait for is complete.
    Progress,
    /// Users or rules have changed, or the login has ended.
    Access,
}

/// A connection after its CONNECT.
pub(super) struct MqttConnection {
    pub(super) stream: Arc<Stream>,
    pub(super) framing: PacketFraming,
    pub(super) version: Version,
    pub(super) attachment: Attachment,
    /// The login, and so the rights; `None` where no login is needed.
    pub(super) identity: Option<Identity>,
    /// The prefix of the login's topics.
    pub(super) mount: Option<MountPrefix>,
    /// The change of users and rules that this connection has seen.
    pub(super) access_generation: u64,
    pub(super) login_end: LoginEnd,
    pub(super) authentication: Option<Box<Reauthentication>>,
    wants_reasons: bool,
    packet_bytes_max: usize,
    pub(super) expiry_seconds: u32,
    pub(super) context: Arc<MqttContext>,
    pub(super) peer: Peer,
    /// Allocated at the first PUBLISH, since most clients only subscribe.
    pub(super) publishing: Option<Box<PublishingState>>,
    pub(super) acknowledgements: Acknowledgements,
    /// QoS 2 publications of the client over earlier connections that it has not released: they do
    /// not count against its quota.
    pub(super) inherited: HashSet<PacketId>,
    /// Control packets of the present batch.
    pub(super) out: BytesMut,
    /// Whether reading is paused, so that a publisher waits for slow subscribers.
    pub(super) paused: bool,
    /// The work since other connections had their turn.
    pub(super) turn: WorkTurn,
    pub(super) ended_by: Option<ConnectionEnd>,
    /// The code of WebSocket's Close frame.
    pub(super) close_code: u16,
}

impl MqttConnection {
    fn new(
        stream: Arc<Stream>,
        framing: PacketFraming,
        opened: OpenedSession,
        context: Arc<MqttContext>,
        peer: Peer,
    ) -> Self {
        let mut connection = Self {
            stream,
            framing,
            version: opened.version,
            attachment: opened.attachment,
            identity: None,
            mount: None,
            access_generation: 0,
            login_end: None,
            authentication: opened.authentication,
            wants_reasons: opened.wants_reasons,
            packet_bytes_max: opened.packet_bytes_max,
            expiry_seconds: opened.expiry_seconds,
            context,
            peer,
            publishing: None,
            acknowledgements: Acknowledgements::default(),
            inherited: HashSet::new(),
            out: BytesMut::new(),
            paused: false,
            turn: WorkTurn::default(),
            ended_by: None,
            close_code: CLOSED_NORMALLY,
        };
        connection.set_identity(opened.identity);
        if opened.session_present {
            connection.inherited = connection.attachment.received_ids().into_iter().collect();
            // A subscription that was permitted at its SUBSCRIBE may be denied by now.
            connection.drop_denied_subscriptions();
        }
        connection
    }

    fn poll_event(&mut self, input: &mut MqttInput, context: &mut Context<'_>) -> Poll<MqttWakeup> {
        let stream = &self.stream;
        let ended = self
            .attachment
            .poll_ended(context, |context| stream.poll_write_ready(context));
        if let Poll::Ready(why) = ended {
            return Poll::Ready(MqttWakeup::Ended(why));
        }
        if self.poll_access(context).is_ready() {
            return Poll::Ready(MqttWakeup::Access);
        }
        if self.acknowledgements.poll_commit(context).is_ready() || self.is_repetition_decided() {
            return Poll::Ready(MqttWakeup::Progress);
        }
        if let Some(publishing) = &mut self.publishing {
            if let Poll::Ready(outcome) = publishing.poll_verdict(context) {
                self.judged(outcome);
                return Poll::Ready(MqttWakeup::Progress);
            }
            if self.paused && publishing.poll_relief(context).is_ready() {
                self.paused = false;
            }
        }
        if self.paused || self.is_waiting_for_answers() || self.attachment.has_many_answers() {
            input.stop_clock();
            self.attachment.note_reading(false); // [MQTT-3.1.2-22]
            return Poll::Pending;
        }
        self.attachment.note_reading(true);
        if self.turn.is_over() {
            return Poll::Ready(MqttWakeup::NextTurn);
        }
        if let Some(publishing) = &mut self.publishing {
            std::task::ready!(publishing.poll_gathered(context));
        }
        match self.stream.poll_read_ready(context) {
            Poll::Ready(Ok(())) => Poll::Ready(MqttWakeup::Readable),
            Poll::Ready(Err(_)) => Poll::Ready(MqttWakeup::Ended(DisconnectCause::Broken)),
            Poll::Pending => {
                let settings = &self.context.settings;
                input
                    .poll_deadline(context, settings)
                    .map(|()| MqttWakeup::SlowPacket)
            }
        }
    }

    pub(super) fn end_with(&mut self, end: ConnectionEnd) {
        self.ended_by.get_or_insert(end);
    }

    /// Appends a control packet to the answers of this batch.
    pub(super) fn answer(&mut self, packet: &Packet<'_>) {
        let version = self.version;
        let encoded = self
            .framing
            .put(&mut self.out, |out| packet.encode(version, out));
        if let Err(error) = encoded {
            tracing::error!(target: "mqtt", "an answer cannot be written: {error}");
        }
    }

    /// Passes this batch's answers to the session, in front of later packets.
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

    /// Ends the batch of one read: flushes publications, then answers.
    pub(super) fn finish_batch(&mut self) {
        let publications = self.publishing.as_mut().and_then(|publishing| {
            let ticket = publishing.flush();
            self.paused = publishing.is_congested();
            ticket
        });
        let session = self.attachment.submit();
        self.acknowledgements
            .batch_flushed(publications.as_ref(), session.as_ref());
        while let Some(ready) = self.next_acknowledgement() {
            match ready {
                Ok(DueAcknowledgement::Publication(answer)) => {
                    if let Err(end) = self.acknowledge(&answer) {
                        self.end_with(end);
                        break;
                    }
                }
                Ok(DueAcknowledgement::Session(step)) => self.take_step(step),
                Err(UnstoredChange) => {
                    self.end_with(ConnectionEnd::Server(
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

    /// The next acknowledgement that may be sent.
    fn next_acknowledgement(&mut self) -> Option<Result<DueAcknowledgement, UnstoredChange>> {
        if let Some(packet_id) = self.acknowledgements.awaited_repetition() {
            let receipt = self.attachment.receipt(packet_id);
            self.acknowledgements.decide_repetition(receipt);
        }
        self.acknowledgements.pop_ready()
    }

    /// Whether the repetition that is the next to be acknowledged is decided.
    fn is_repetition_decided(&self) -> bool {
        let awaited = self.acknowledgements.awaited_repetition();
        awaited.is_some_and(|packet_id| {
            !matches!(self.attachment.receipt(packet_id), Receipt::Undecided)
        })
    }

    /// PUBACK or PUBREC. MQTT 3 cannot report a failure: a publication that is not permitted is
    /// acknowledged nevertheless \[MQTT-3.3.5-2\]; a publication that was not accepted must not be
    /// acknowledged, and its sender repeats it over a new connection \[MQTT-4.8.0-2\]. The same
    /// applies to one that was not retained; its repetition is acknowledged.
    fn acknowledge(&mut self, answer: &PublishAcknowledgement) -> Result<(), ConnectionEnd> {
        if answer.exactly_once && answer.reason.is_error() && !answer.is_delivered {
            // The identifier is free again on both sides [MQTT-4.3.3-4].
            self.attachment.note_released(answer.packet_id);
        }
        let mut properties = PropertiesBuffer::new();
        if self.may_explain(&answer.text) {
            // A reason that is too long for a string is omitted.
            let _ = properties.push(&Property::ReasonString(&answer.text));
        }
        let is_silent = answer.reason.is_error() && !self.version.has_properties();
        if is_silent && answer.reason == Reason::QUOTA_EXCEEDED && !answer.is_forbidden {
            return Err(ConnectionEnd::Server(
                answer.reason,
                "a publication was not accepted, and MQTT 3 cannot report that",
            ));
        }
        let ack = Ack {
            packet_id: answer.packet_id,
            reason: if is_silent {
                Reason::SUCCESS
            } else {
                answer.reason
            },
            properties: properties.as_properties(),
        };
        if answer.exactly_once {
            self.answer(&Packet::Pubrec(ack));
        } else {
            self.answer(&Packet::Puback(ack));
        }
        Ok(())
    }

    /// Whether a reason string may be added: the client requested it, and accepts packets of this
    /// size \[MQTT-3.4.2-2\].
    pub(super) fn may_explain(&self, text: &str) -> bool {
        !text.is_empty() && self.may_explain_in(text.len())
    }

    /// The same for properties with this many bytes.
    pub(super) const fn may_explain_in(&self, bytes: usize) -> bool {
        const OTHER_BYTES_MAX: usize = 32;
        self.wants_reasons && bytes + OTHER_BYTES_MAX <= self.packet_bytes_max
    }
}
