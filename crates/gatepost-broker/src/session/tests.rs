//! A session without a broker: the frames that it sends, their order, and its queue.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_message::{Properties, Publication, Qos, Topic};
use gatepost_settings::ByteSize;
use gatepost_store::SystemClock;

use super::cache_lines::{FLAGS_LINE, LINK_LINE};
use super::*;
use crate::authorization::Authorization;
use crate::bounded_socket::BoundedSocket;
use crate::encoder::{Encoder, FrameOptions, SubscriberSocket, Unencodable, WireFormat};
use crate::filter::DeliveryOptions;
use crate::persistence::ChangeBatch;
use crate::prefetch::CACHE_LINE_BYTES;

/// Frames are payloads: after `!` where they may be repeated; a release is `~`.
struct LetterEncoder;

impl Encoder for LetterEncoder {
    fn name(&self) -> &'static str {
        "letters"
    }

    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        if options.dup {
            out.extend_from_slice(b"!");
        }
        out.extend_from_slice(&publication.payload);
        Ok(0)
    }

    fn encode_release(&self, _packet_id: NonZeroU16, out: &mut BytesMut) {
        out.extend_from_slice(b"~");
    }
}

struct Fixture {
    settings: BrokerSettings,
    counters: Counters,
    limits: LimitCounters,
    clock: BrokerClock,
    session: Session,
    socket: Arc<BoundedSocket>,
}

impl Fixture {
    fn new(settings: BrokerSettings) -> Self {
        let fixture = Self {
            settings,
            counters: Counters::default(),
            limits: LimitCounters::default(),
            clock: BrokerClock::new(Arc::new(SystemClock::default())),
            session: Session::new(Arc::from("client"), "test".into()),
            socket: Arc::new(BoundedSocket::new(usize::MAX)),
        };
        fixture.connect(2);
        fixture
    }

    fn view(&self) -> BrokerView<'_> {
        BrokerView {
            settings: &self.settings,
            counters: &self.counters,
            limits: &self.limits,
            clock: &self.clock,
            is_stored: false,
        }
    }

    /// A connection with this quota, whose greeting is `>`.
    fn connect(&self, in_flight_max: usize) {
        let mut state = self.session.lock();
        let link = LiveLink {
            peer: gatepost_message::Peer::Local,
            since: std::time::SystemTime::UNIX_EPOCH,
            socket: self.socket.clone(),
            format: WireFormat::Static(&LetterEncoder),
            frame_bytes_max: usize::MAX,
            in_flight_max,
            aliases: None,
        };
        self.session.attach(&mut state, link);
        self.session
            .greet(&mut state, |out| out.extend_from_slice(b">"), self.view());
    }

    fn begin(&self) {
        self.session.lock().begin();
        self.session.flush(self.view());
    }

    fn deliver(&self, payload: &'static str, qos: Qos) -> DeliveryOutcome {
        let mut publication = Publication::new(Topic::new("a").expect("a topic"), payload);
        publication.qos = qos;
        self.deliver_publication(publication)
    }

    fn deliver_publication(&self, publication: Publication) -> DeliveryOutcome {
        let qos = publication.qos;
        let options = DeliveryOptions::new(qos, false, false, None);
        let mut batch = ChangeBatch::default();
        let outcome = self.session.deliver(
            &Arc::new(publication),
            &options,
            false,
            &mut batch,
            self.view(),
        );
        self.session.flush(self.view());
        outcome
    }

    /// Does the work of the connection's task after the socket has become writable.
    fn write_waiting(&self) {
        *self.socket.room.lock() = usize::MAX;
        let mut state = self.session.lock();
        let mut context = Context::from_waker(Waker::noop());
        let writable = |_: &mut Context<'_>| Poll::Ready(Ok(()));
        let ended = self
            .session
            .poll_owner(&mut state, &mut context, writable, self.view());
        assert!(ended.is_pending());
    }

    fn acknowledge(&self, packet_id: u16) {
        let packet_id = NonZeroU16::new(packet_id).expect("not zero");
        self.session
            .with_acknowledged(self.view(), |queue| queue.acknowledge(packet_id))
            .expect("in flight");
        self.session.flush(self.view());
    }

    fn taken(&self) -> String {
        let taken = std::mem::take(&mut *self.socket.taken.lock());
        String::from_utf8(taken).expect("letters")
    }
}

#[test]
fn nothing_leaves_before_the_greeting_may() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.deliver("a", Qos::AtMostOnce);
    fixture.deliver("b", Qos::AtLeastOnce);
    assert_eq!(fixture.taken(), "");
    fixture.begin();
    assert_eq!(fixture.taken(), ">ab", "all of it, without a further cause");
}

#[test]
fn mqtt_3_3_4_9_the_quota_is_kept() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.begin();
    for payload in ["a", "b", "c"] {
        fixture.deliver(payload, Qos::AtLeastOnce);
    }
    fixture.deliver("d", Qos::AtMostOnce);
    assert_eq!(fixture.taken(), ">abd", "QoS 0 has no quota");
    fixture.acknowledge(1);
    assert_eq!(fixture.taken(), "c");
}

#[test]
fn mqtt_4_4_0_1_what_was_not_acknowledged_is_sent_again_in_its_order() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.begin();
    fixture.deliver("a", Qos::ExactlyOnce);
    fixture.deliver("b", Qos::AtLeastOnce);
    fixture.deliver("c", Qos::AtLeastOnce);
    let first = NonZeroU16::MIN;
    fixture
        .session
        .with_acknowledged(fixture.view(), |queue| queue.release(first))
        .expect("in flight");
    fixture.taken();
    let detached = |fixture: &Fixture| {
        let mut state = fixture.session.lock();
        fixture.session.detach(&mut state, fixture.view())
    };
    assert!(detached(&fixture), "all was written");
    fixture.connect(10);
    fixture.begin();
    assert_eq!(fixture.taken(), ">~!bc");
}

#[test]
fn bytes_that_the_socket_refuses_are_written_by_the_owner() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.begin();
    *fixture.socket.room.lock() = 1;
    fixture.deliver("a", Qos::AtMostOnce);
    fixture.deliver("b", Qos::AtMostOnce);
    fixture.deliver("c", Qos::AtMostOnce);
    assert_eq!(fixture.taken(), ">a");
    *fixture.socket.room.lock() = usize::MAX;
    fixture.deliver("d", Qos::AtMostOnce);
    assert_eq!(fixture.taken(), "", "blocked: publishers only append");
    fixture.write_waiting();
    assert_eq!(fixture.taken(), "bcd");
}

/// A socket whose peer has closed it.
struct BrokenSocket;

impl SubscriberSocket for BrokenSocket {
    fn try_write(&self, _slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_broken_socket_ends_the_connection() {
    let fixture = Fixture::new(BrokerSettings::default());
    if let Some(link) = &mut fixture.session.lock().link {
        link.socket = Arc::new(BrokenSocket);
    }
    fixture.deliver("a", Qos::AtLeastOnce);
    fixture.begin();
    let ended = fixture.session.lock().ended;
    assert_eq!(ended, Some(DisconnectCause::Broken));
}

#[test]
fn a_full_outbox_takes_no_further_deliveries() {
    let fixture = Fixture::new(BrokerSettings {
        outbox_max: ByteSize(4),
        ..BrokerSettings::default()
    });
    fixture.connect(100);
    fixture.begin();
    fixture.taken();
    *fixture.socket.room.lock() = 0;
    for _ in 0..10 {
        fixture.deliver("abc", Qos::AtLeastOnce);
    }
    {
        let state = fixture.session.lock();
        assert_eq!(state.outbox.bytes(), 6, "the bound, and one delivery");
        assert_eq!((state.in_flight(), state.queued()), (2, 10));
    }
    fixture.write_waiting();
    assert_eq!(fixture.taken(), "abc".repeat(10), "each write makes room");
}

#[test]
fn unacknowledged_deliveries_are_bounded_in_bytes() {
    let fixture = Fixture::new(BrokerSettings {
        queue_bytes_max: ByteSize(10),
        ..BrokerSettings::default()
    });
    fixture.connect(100);
    fixture.begin();
    fixture.taken();
    fixture.deliver("12345678", Qos::AtLeastOnce);
    fixture.deliver("abcdefgh", Qos::AtLeastOnce);
    assert_eq!(fixture.taken(), "12345678");
    let outcome = fixture.deliver("x", Qos::AtLeastOnce);
    assert_eq!(outcome, DeliveryOutcome::Refused, "the queue is full too");
    fixture.acknowledge(1);
    assert_eq!(fixture.taken(), "abcdefgh");
    fixture.acknowledge(2);
    fixture.deliver("too large for the queue", Qos::AtLeastOnce);
    assert_eq!(fixture.taken(), "");
}

#[test]
fn mqtt_3_3_2_5_what_expires_while_the_socket_is_full_is_not_sent() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.begin();
    fixture.session.lock().policy = SlowSubscriber::NewestOnly;
    *fixture.socket.room.lock() = 1;
    fixture.deliver("a", Qos::AtMostOnce);
    fixture.deliver("b", Qos::AtMostOnce);
    assert_eq!(fixture.taken(), ">a", "b waits in the outbox");
    let mut expired = Publication::new(Topic::new("brief").expect("a topic"), "c");
    expired.properties = Some(Box::new(Properties {
        expiry_seconds: Some(0),
        ..Properties::default()
    }));
    fixture.deliver_publication(expired);
    fixture.deliver("d", Qos::AtMostOnce);
    fixture.write_waiting();
    assert_eq!(fixture.taken(), "bd");
    assert_eq!(fixture.session.dropped.of(DropCause::Expired), 1);
}

#[test]
fn a_client_that_reads_nothing_is_noticed_and_one_that_reads_slowly_is_not() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.begin();
    let later = || Instant::now() + Duration::from_secs(1);
    assert!(
        !fixture.session.reads_nothing_since(later()),
        "nothing waits"
    );
    *fixture.socket.room.lock() = 1;
    fixture.deliver("abc", Qos::AtMostOnce);
    assert!(fixture.session.reads_nothing_since(later()));
    let began = fixture.clock.now();
    *fixture.socket.room.lock() = 1;
    {
        let mut state = fixture.session.lock();
        state.begin();
        fixture.session.flush_locked(&mut state, fixture.view());
    }
    assert!(
        !fixture.session.reads_nothing_since(began),
        "it read a byte"
    );
    assert!(fixture.session.reads_nothing_since(later()));
    fixture.write_waiting();
    assert!(!fixture.session.reads_nothing_since(later()), "all is read");
}

#[test]
fn publishers_wait_once_for_a_subscriber_that_does_not_catch_up() {
    let fixture = Fixture::new(BrokerSettings {
        queue_messages_max: 8,
        ..BrokerSettings::default()
    });
    fixture.begin();
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        outcomes.push(fixture.deliver("a", Qos::AtLeastOnce));
    }
    assert_eq!(outcomes.last(), Some(&DeliveryOutcome::Filling));
    let later = Instant::now() + Duration::from_secs(1);
    fixture.acknowledge(1);
    assert!(fixture.session.give_up_stalled(later), "one is not enough");
    let outcome = fixture.deliver("b", Qos::AtLeastOnce);
    assert_ne!(outcome, DeliveryOutcome::Filling, "they do not wait again");
    for packet_id in 2..=9 {
        fixture.acknowledge(packet_id);
    }
    let outcomes = (0..8).map(|_| fixture.deliver("c", Qos::AtLeastOnce));
    assert!(
        outcomes
            .collect::<Vec<_>>()
            .contains(&DeliveryOutcome::Filling),
        "it has caught up, so they wait for it again"
    );
}

struct Revoked;

impl Authorization for Revoked {
    fn may_receive(&self, _topic: &str) -> bool {
        false
    }

    fn may_publish(&self, _topic: &str, _retain: bool) -> bool {
        false
    }
}

#[test]
fn rights_are_checked_again_for_queued_messages() {
    let fixture = Fixture::new(BrokerSettings::default());
    fixture.begin();
    for payload in ["a", "b", "c", "d"] {
        fixture.deliver(payload, Qos::AtLeastOnce);
    }
    assert_eq!(fixture.taken(), ">ab");
    fixture
        .session
        .lock()
        .set_authorization(Some(Arc::new(Revoked)));
    fixture.acknowledge(1);
    fixture.acknowledge(2);
    assert_eq!(
        fixture.taken(),
        "",
        "c and d waited when the right was revoked"
    );
    assert_eq!(fixture.session.dropped.of(DropCause::Denied), 2);
    let publication = Publication::new(Topic::new("will").expect("a topic"), "x");
    let mut state = fixture.session.lock();
    state.will = Some(Box::new(SessionWill {
        publication,
        delay: Duration::ZERO,
    }));
    assert!(state.take_will(&mut Vec::new()).is_none());
}

/// The parts of a session that a delivery uses are in the cache lines that are fetched.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_delivery_uses_two_cache_lines() {
    let fixture = Fixture::new(BrokerSettings::default());
    let session = &fixture.session;
    let line = |address: *const u8| {
        (address.addr() - std::ptr::from_ref(session).addr()) / CACHE_LINE_BYTES
    };
    let state = session.lock();
    let link = state.link.as_ref().expect("it is connected");
    assert_eq!(std::ptr::from_ref(session).addr() % CACHE_LINE_BYTES, 0);
    let outbox_length = std::ptr::from_ref(&state.outbox).cast::<u8>();
    for in_first in [
        std::ptr::from_ref(&state.blocked).cast(),
        std::ptr::from_ref(&state.acknowledged).cast(),
        outbox_length,
        outbox_length.wrapping_add(2 * size_of::<usize>() - 1),
    ] {
        assert_eq!(line(in_first), FLAGS_LINE);
    }
    let socket = std::ptr::from_ref(&link.socket);
    for in_third in [
        std::ptr::from_ref(&link.format).cast(),
        socket.cast(),
        socket.wrapping_add(1).cast::<u8>().wrapping_sub(1),
    ] {
        assert_eq!(line(in_third), LINK_LINE);
    }
}
