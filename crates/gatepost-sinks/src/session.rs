//! A sink's session at the broker: the deliveries it receives, and their acknowledgement.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{
    Attachment, Authorization, Broker, ConnectError, ConnectOptions, ConnectionClose,
    DisconnectCause, IN_PROCESS_PREFIX, Publisher, QueueBounds, Receipt, RequestedFilter,
    SubscribeError, SubscribeOptions,
};
use gatepost_message::{Peer, Qos};
use gatepost_mqtt::PacketId;
use gatepost_store::{StoreError, Ticket};

use crate::frame::{FORMAT, SinkDelivery, SinkFrame, take_frame};
use crate::session_socket::SessionSocket;
use crate::settings::SinkSettings;

/// The reason why a sink has no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkSessionError {
    #[error("no session: {0}")]
    Connect(#[from] ConnectError),
    #[error("{filter}: {cause}")]
    Subscribe {
        filter: String,
        cause: SubscribeError,
    },
}

/// The publications that a sink receives.
pub(crate) struct SinkSubscription {
    pub(crate) filters: Vec<(RequestedFilter, SubscribeOptions)>,
    /// Deliveries that may be unacknowledged at once.
    pub(crate) in_flight_max: u16,
    /// The largest frame, in bytes, where the other broker has a bound.
    pub(crate) frame_bytes_max: Option<u32>,
    pub(crate) kind: &'static str,
    /// The rights of the sink's user; `None` for a sink of the config.
    pub(crate) authorization: Option<Arc<dyn Authorization>>,
}

/// The client id of a sink's session.
pub(crate) fn client_id(name: &str) -> String {
    format!("{IN_PROCESS_PREFIX}{name}")
}

pub(crate) struct SinkSession {
    attachment: Attachment,
    socket: Arc<SessionSocket>,
    bytes: BytesMut,
}

impl SinkSession {
    /// Resumes or creates the sink's session, and subscribes to the wanted filters and to nothing
    /// else.
    pub(crate) async fn open(
        broker: &Broker,
        settings: &SinkSettings,
        wanted: &SinkSubscription,
    ) -> Result<Self, SinkSessionError> {
        let socket = Arc::new(SessionSocket::default());
        let options = ConnectOptions {
            client_id: Some(client_id(&settings.name)),
            user: None,
            authorization: wanted.authorization.clone(),
            kind: wanted.kind,
            // The sink is a part of this process, so it has no address.
            peer: Peer::Local,
            clean_start: false,
            // The longest expiry that the broker's settings allow.
            expiry: Duration::MAX,
            receive_max: wanted.in_flight_max,
            frame_bytes_max: wanted.frame_bytes_max,
            alias_max: 0,
            silence_max: None,
            will: None,
            slow_subscriber: Some(settings.when_full),
            format: FORMAT,
            socket: socket.clone(),
        };
        let connected = broker.connect(options, |_, _| {})?;
        let mut attachment = connected.attachment;
        attachment.bound_queue(bounds(broker, settings));
        // The store reports a session that cannot be stored; the sink works without it.
        for ticket in connected.tickets.into_iter().flatten() {
            let _ = ticket.committed().await;
        }
        attachment.begin();
        let session = Self {
            attachment,
            socket,
            bytes: BytesMut::new(),
        };
        session.subscribe(wanted)?;
        session.attachment.flush();
        Ok(session)
    }

    fn subscribe(&self, wanted: &SinkSubscription) -> Result<(), SinkSessionError> {
        for known in self.attachment.filters() {
            if !wanted
                .filters
                .iter()
                .any(|(filter, _)| filter.text == known)
            {
                self.attachment.unsubscribe(&known);
            }
        }
        for (filter, options) in &wanted.filters {
            let retained = self.attachment.subscribe(filter, options);
            let retained = retained.map_err(|cause| SinkSessionError::Subscribe {
                filter: filter.text.to_string(),
                cause,
            })?;
            self.attachment.deliver_retained(retained);
        }
        let _ = self.submit();
        Ok(())
    }

    /// The next delivery of the broker, or the reason why the broker ended the session's
    /// connection. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<SinkFrame, DisconnectCause> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<SinkFrame, DisconnectCause>> {
        loop {
            match take_frame(&mut self.bytes) {
                Ok(Some(handed)) => return Poll::Ready(Ok(handed)),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(target: "sinks", "{error}");
                    return Poll::Ready(Err(DisconnectCause::Broken));
                }
            }
            let socket = &self.socket;
            let ended = self
                .attachment
                .poll_ended(context, |context| socket.poll_writable(context));
            if let Poll::Ready(cause) = ended {
                return Poll::Ready(Err(cause));
            }
            std::task::ready!(socket.poll_read(context, &mut self.bytes));
        }
    }

    /// Waits until at least `bytes` bytes of deliveries are ready. Cancel-safe.
    pub(crate) async fn filled(&self, bytes: usize) {
        poll_fn(|context| self.socket.poll_filled(context, bytes)).await;
    }

    /// Acknowledges a message that the destination has received or that is given up. The result is
    /// as for [`SinkSession::submit`].
    pub(crate) fn complete(&self, delivery: &SinkDelivery) -> Option<Result<Ticket, StoreError>> {
        let packet_id = delivery.packet_id?;
        // Stray acknowledgements belong to deliveries of an earlier connection.
        if delivery.qos == Qos::ExactlyOnce {
            // The message was queued under earlier settings of the sink, which subscribed at this
            // QoS.
            let _ = self.attachment.release(packet_id);
            let _ = self.attachment.finish(packet_id);
        } else {
            let _ = self.attachment.acknowledge(packet_id);
        }
        self.submit()
    }

    /// Completes a delivery at QoS 2 that an earlier connection released.
    pub(crate) fn released(&self, packet_id: PacketId) {
        let _ = self.attachment.finish(packet_id);
        let _ = self.submit();
    }

    /// Submits the acknowledgements to the store. The ticket covers all changes of the session so
    /// far. A sink must wait for it between the steps of a delivery at QoS 2; a delivery at QoS 1
    /// whose acknowledgement is lost is repeated.
    pub(crate) fn submit(&self) -> Option<Result<Ticket, StoreError>> {
        let ticket = self.attachment.submit();
        self.attachment.flush();
        ticket
    }

    /// The next message that is ready without waiting.
    pub(crate) fn next_ready(&mut self) -> Option<SinkFrame> {
        take_frame(&mut self.bytes).ok().flatten()
    }

    /// A publisher whose publications are not delivered to this session.
    pub(crate) fn publisher(&self) -> Publisher {
        self.attachment.publisher()
    }

    /// A packet identifier that no delivery uses.
    pub(crate) fn unused_packet_id(&self) -> PacketId {
        self.attachment.unused_packet_id()
    }

    /// The state of a publication of the other broker with this identifier.
    pub(crate) fn receipt(&self, packet_id: PacketId) -> Receipt {
        self.attachment.receipt(packet_id)
    }

    /// Handles PUBACK of the other broker. This and the next three changes are stored by
    /// [`SinkSession::submit`]; an acknowledgement of an unknown delivery belongs to an earlier
    /// connection.
    pub(crate) fn acknowledge(&self, packet_id: PacketId) {
        let _ = self.attachment.acknowledge(packet_id);
    }

    /// Handles PUBREC of the other broker.
    pub(crate) fn release(&self, packet_id: PacketId) {
        let _ = self.attachment.release(packet_id);
    }

    /// Handles PUBCOMP of the other broker.
    pub(crate) fn finish(&self, packet_id: PacketId) {
        let _ = self.attachment.finish(packet_id);
    }

    /// Handles PUBREL of the other broker.
    pub(crate) fn note_released(&self, packet_id: PacketId) {
        self.attachment.note_released(packet_id);
    }

    /// Forgets which publications the other broker has not released: it has none of them any more.
    pub(crate) fn forget_received(&self) {
        if self.attachment.received_count() > 0 {
            for packet_id in (1..=u16::MAX).filter_map(PacketId::new) {
                self.attachment.note_released(packet_id);
            }
            let _ = self.submit();
        }
    }

    /// Disconnects from the session, which is kept for the next connection.
    pub(crate) fn close(self) {
        self.attachment.close(&ConnectionClose::default());
    }
}

fn bounds(broker: &Broker, settings: &SinkSettings) -> QueueBounds {
    let of_broker = broker.settings();
    let or = |own: usize, general: usize| if own == 0 { general } else { own };
    QueueBounds {
        messages_max: or(settings.queue_messages_max, of_broker.queue_messages_max),
        bytes_max: or(
            settings.queue_bytes_max.as_usize(),
            of_broker.queue_bytes_max.as_usize(),
        ),
    }
}
