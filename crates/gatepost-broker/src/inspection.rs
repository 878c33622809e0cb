//! The details of one session, for operators: its connection, its subscriptions, its queue, and the
//! causes that delay it.
//!
//! Everything is read under the session's lock at one moment, except the subscriptions, which are
//! read before it: no lock is ever held together with another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use gatepost_message::{Peer, TopicFilter};

use crate::acknowledged::AcknowledgedDeliveries;
use crate::filter::{RetainHandling, SubscribeOptions};
use crate::session::{QueueBounds, Session, SessionState};
use crate::session_table::SessionTable;
use crate::stats::{self, SessionStats};

/// The cause that delays publications in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitCause {
    /// The client is not connected.
    Client,
    /// Its queue is on disk until there is memory for it (`broker.memory_max`).
    Memory,
    /// The socket accepts no more bytes: the client does not read, or the network is slow.
    Socket,
    /// As many publications as the client permits (Receive Maximum) or `broker.inflight_max` are
    /// unacknowledged, or their bytes are those that may wait (`broker.queue_bytes_max`).
    Acknowledgements,
    /// The next delivery's packet identifier is still in use.
    PacketIdentifier,
    /// The next delivery must be on disk before it is sent.
    Commit,
}

impl WaitCause {
    /// The name in the administration API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Memory => "memory",
            Self::Socket => "socket",
            Self::Acknowledgements => "acknowledgements",
            Self::PacketIdentifier => "packet identifier",
            Self::Commit => "commit",
        }
    }
}

/// A live connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionStats {
    /// The other end.
    pub peer: Peer,
    /// The wire format, which names the version of the protocol.
    pub protocol: String,
    /// The time at which the connection got the session.
    pub since: SystemTime,
    /// The time since the client's last packet.
    pub silent_for: Duration,
    /// The silence after which the connection counts as lost; `None` for none.
    pub silence_max: Option<Duration>,
    /// The most unacknowledged publications at once.
    pub in_flight_max: usize,
    /// The largest packet that the client accepts; `None` for any.
    pub frame_bytes_max: Option<usize>,
}

/// The fill level of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// QoS 1 and 2 publications that wait for their turn.
    pub waiting: usize,
    /// Bytes of the waiting publications: topics, payloads, properties.
    pub waiting_bytes: usize,
    /// Publications that were sent and are not acknowledged.
    pub in_flight: usize,
    /// QoS 2 publications of the client that it has not released.
    pub unreleased: usize,
    /// Publications whose bytes wait for the socket.
    pub outbox: usize,
    /// The number of these bytes.
    pub outbox_bytes: usize,
}

/// One session at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInspection {
    /// The entry of a session in the list.
    pub stats: SessionStats,
    /// `None` while the client is not connected.
    pub connection: Option<ConnectionStats>,
    /// The time for which it outlives its connection.
    pub expiry: Duration,
    /// The time until the session ends, if its client is not connected and its expiry is finite.
    pub expires_in: Option<Duration>,
    /// Whether it survives the server.
    pub is_stored: bool,
    /// Its queue.
    pub queue: QueueStats,
    /// The causes that delay its publications; empty if nothing waits.
    pub waits_for: Vec<WaitCause>,
    /// The time for which publishers have waited for it.
    pub slows_publishers_for: Option<Duration>,
    /// The topic of its will.
    pub will: Option<String>,
    /// Its subscriptions, up to the requested number, sorted by filter.
    pub subscriptions: Vec<(TopicFilter, SubscribeOptions)>,
}

/// The sessions of this client id, those of one user if one is named (the empty name stands for
/// clients without a login), each with a limited number of subscriptions.
pub(crate) fn of_client(
    table: &SessionTable,
    client_id: &str,
    user: Option<&str>,
    subscriptions_max: usize,
) -> Vec<SessionInspection> {
    let found = table.all_of(client_id, user);
    let inspected = found.iter();
    inspected
        .map(|session| of_session(table, session, subscriptions_max))
        .collect()
}

/// At most `count` sessions whose client id, user or address contains `search`, after the first
/// `skip`, sorted by client id, without their subscriptions; and how many there are.
pub(crate) fn search(
    table: &SessionTable,
    search: &str,
    skip: usize,
    count: usize,
) -> (Vec<SessionInspection>, usize) {
    let mut found = table.all();
    found.retain(|session| {
        let state = session.lock();
        let user = state.user.clone();
        let peer = state.link.as_ref().map(|link| link.peer);
        drop(state);
        session.client_id().contains(search)
            || user.is_some_and(|user| user.contains(search))
            || peer.is_some_and(|peer| peer.to_string().contains(search))
    });
    let total = found.len();
    found.sort_unstable_by(|a, b| a.client_id().cmp(b.client_id()));
    let shown = found.iter().skip(skip).take(count);
    let shown = shown.map(|session| of_session(table, session, 0));
    (shown.collect(), total)
}

/// At most `count` of the sessions that publishers wait for, without their subscriptions.
pub(crate) fn slowing_publishers(table: &SessionTable, count: usize) -> Vec<SessionInspection> {
    let sessions = table.all();
    let slow = sessions.iter().filter(|session| session.is_congested());
    slow.map(|session| of_session(table, session, 0))
        .filter(|session| session.slows_publishers_for.is_some())
        .take(count)
        .collect()
}

/// One session, with a limited number of subscriptions.
fn of_session(
    table: &SessionTable,
    session: &Arc<Session>,
    subscriptions_max: usize,
) -> SessionInspection {
    let shared = table.shared();
    let subscriptions = subscriptions(table, session, subscriptions_max);
    let now = shared.clock.now();
    let stats = stats::of_session(session);
    let state = session.lock();
    let queue = queue(&state);
    SessionInspection {
        stats,
        connection: connection(session, &state, shared.clock.now_seconds()),
        expiry: state.expiry,
        expires_in: state.expires.map(|at| at.saturating_duration_since(now)),
        is_stored: state.is_persistent(),
        waits_for: waits_for(session, &state, queue, state.bounds(shared.view())),
        queue,
        slows_publishers_for: state
            .congested_since()
            .map(|since| now.saturating_duration_since(since)),
        will: state
            .will
            .as_ref()
            .map(|will| will.publication.topic.to_string()),
        subscriptions,
    }
}

fn subscriptions(
    table: &SessionTable,
    session: &Arc<Session>,
    count: usize,
) -> Vec<(TopicFilter, SubscribeOptions)> {
    if count == 0 {
        return Vec::new();
    }
    let filters: Vec<TopicFilter> = session.filters.lock().iter().take(count).cloned().collect();
    let with_options = |filter: TopicFilter| {
        let member = table.shared().index.subscription_of(session, &filter)?;
        let options = SubscribeOptions {
            qos: member.qos,
            no_local: member.no_local,
            retain_as_published: member.retain_as_published,
            // It only affects the answer to SUBSCRIBE, so it is not shown.
            retain_handling: RetainHandling::Send,
            identifier: member.identifier,
        };
        Some((filter, options))
    };
    filters.into_iter().filter_map(with_options).collect()
}

fn connection(
    session: &Session,
    state: &SessionState,
    now_seconds: u32,
) -> Option<ConnectionStats> {
    let link = state.link.as_ref()?;
    let heard = session.heard_seconds.load(Ordering::Relaxed);
    // One and a half times the keep alive.
    let silence_max = session.silence_max_seconds.load(Ordering::Relaxed);
    Some(ConnectionStats {
        peer: link.peer,
        protocol: link.format.name().to_owned(),
        since: link.since,
        silent_for: Duration::from_secs(now_seconds.saturating_sub(heard).into()),
        silence_max: (silence_max > 0).then(|| Duration::from_secs(silence_max.into())),
        in_flight_max: link.in_flight_max,
        frame_bytes_max: (link.frame_bytes_max < usize::MAX).then_some(link.frame_bytes_max),
    })
}

fn queue(state: &SessionState) -> QueueStats {
    let acknowledged = state.acknowledged.as_deref();
    let newest = state.newest.as_ref().map_or(0, |newest| newest.len());
    QueueStats {
        waiting: acknowledged.map_or(0, |queue| queue.waiting.len()),
        waiting_bytes: acknowledged.map_or(0, AcknowledgedDeliveries::waiting_bytes),
        in_flight: acknowledged.map_or(0, |queue| queue.in_flight.len()),
        unreleased: acknowledged.map_or(0, |queue| queue.received.len()),
        outbox: state.outbox.messages() + newest,
        outbox_bytes: state.outbox.bytes(),
    }
}

fn waits_for(
    session: &Session,
    state: &SessionState,
    queue: QueueStats,
    bounds: QueueBounds,
) -> Vec<WaitCause> {
    let mut causes = Vec::new();
    if session.is_on_disk() {
        causes.push(WaitCause::Memory);
    }
    let Some(link) = &state.link else {
        if queue.waiting + queue.in_flight > 0 {
            causes.push(WaitCause::Client);
        }
        return causes;
    };
    if state.is_blocked() && queue.outbox_bytes > 0 {
        causes.push(WaitCause::Socket);
    }
    if queue.waiting == 0 {
        return causes;
    }
    if let Some(acknowledged) = &state.acknowledged {
        if !acknowledged.has_quota(link.in_flight_max, bounds.bytes_max) {
            causes.push(WaitCause::Acknowledgements);
            return causes;
        }
        if acknowledged.must_wait_for_identifier() {
            causes.push(WaitCause::PacketIdentifier);
        }
        if acknowledged.awaited_commit.is_some() {
            causes.push(WaitCause::Commit);
        }
    }
    causes
}
