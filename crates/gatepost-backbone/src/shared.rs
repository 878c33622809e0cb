//! State that the broker's threads and the backbone's thread share, and the methods that the broker
//! calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use gatepost_broker::{
    ClaimWait, GroupChange, InterestBarrier, LiveNode, LoggedBatch, LoggedPublication, NodesStatus,
    OtherNodes, SessionName, SessionUse,
};
use gatepost_learning::bayes::Lesson;
use gatepost_learning::reputation::SenderLesson;
use gatepost_message::{NodeNumber, Publication, Qos, TopicFilter};
use gatepost_store::{Store, StoreChange, StoreError, Ticket};
use parking_lot::Mutex;

use crate::encoding::{BundleOrigin, EncodingError, VERSION};
use crate::error::BackboneError;
use crate::groups::OwnGroups;
use crate::interest::Interest;
use crate::learned::view::LessonsView;
use crate::log::{Log, kept};
use crate::mail::view::MailboxView;
use crate::membership::{KnownNodes, NodeRecord, database_number};
use crate::moves::SessionMoves;
use crate::node_epoch::{NodeStreamId, stored_epoch};
use crate::node_stream::copy::NodeCopy;
use crate::outgoing::OutgoingQueue;
use crate::question_state::QuestionState;
use crate::records::view::RecordsView;
use crate::retained::SharedRetained;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;
use crate::unreadable::UnreadableParts;

/// State that the broker's threads and the backbone's share.
pub(crate) struct Shared {
    pub(crate) settings: BackboneSettings,
    /// The number of this node.
    pub(crate) node: u8,
    /// The name of this machine.
    host: String,
    /// The time of the start, in milliseconds since 1970.
    run: u64,
    /// The number of the database.
    database: u64,
    /// The epoch of this node's stream; 0 before the first one.
    epoch: AtomicU64,
    pub(crate) subjects: Subjects,
    pub(crate) interest: Interest,
    pub(crate) groups: OwnGroups,
    pub(crate) log: Log,
    pub(crate) moves: SessionMoves,
    /// The copy of this node's sessions, for other nodes.
    pub(crate) copy: Arc<NodeCopy>,
    pub(crate) retained: SharedRetained,
    /// The users and other records that the nodes share.
    pub(crate) records: Arc<RecordsView>,
    /// The mailboxes that the nodes share.
    pub(crate) mailboxes: Arc<MailboxView>,
    /// The lessons of Bayes.
    pub(crate) lessons: Arc<LessonsView<Lesson>>,
    /// The averages of senders.
    pub(crate) senders: Arc<LessonsView<SenderLesson>>,
    pub(crate) known_nodes: KnownNodes,
    pub(crate) questions: QuestionState,
    /// Present while there is a connection.
    outgoing: ArcSwapOption<OutgoingQueue>,
    trouble: Mutex<Option<String>>,
    /// Parts that this version cannot read.
    pub(crate) unreadable: UnreadableParts,
    bundles: AtomicU64,
    /// The last message of the stream of retained messages that was taken in.
    stream_position: AtomicU64,
    forwarded: AtomicU64,
    received: AtomicU64,
    malformed: AtomicU64,
    unconfirmed: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        settings: BackboneSettings,
        node: NodeNumber,
        store: Store,
        records: Arc<RecordsView>,
    ) -> Result<Self, StoreError> {
        let run = SystemTime::now().duration_since(UNIX_EPOCH);
        let node = node.get();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Ok(Self {
            database: database_number(&store)?,
            epoch: AtomicU64::new(stored_epoch(&store)?),
            copy: Arc::new(NodeCopy::new()),
            log: Log::open(&settings, store)?,
            moves: SessionMoves::new(),
            node,
            host: host.trim().to_owned(),
            run: run.unwrap_or_default().as_millis() as u64,
            subjects: Subjects::new(&settings.cluster),
            mailboxes: Arc::new(MailboxView::new(&settings)),
            lessons: Arc::new(LessonsView::new(&settings)),
            senders: Arc::new(LessonsView::new(&settings)),
            settings,
            interest: Interest::new(),
            groups: OwnGroups::new(),
            retained: SharedRetained::new(node),
            records,
            known_nodes: KnownNodes::new(node),
            questions: QuestionState::new(),
            outgoing: ArcSwapOption::empty(),
            trouble: Mutex::new(Some("it is connecting".to_owned())),
            unreadable: UnreadableParts::default(),
            bundles: AtomicU64::new(0),
            stream_position: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            received: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            unconfirmed: AtomicU64::new(0),
        })
    }

    /// The record by which this node makes itself known.
    pub(crate) fn record(&self) -> NodeRecord {
        NodeRecord {
            node: self.node,
            host: self.host.clone(),
            process: std::process::id(),
            started_unix_ms: self.run,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            database: self.database,
            epoch: self.epoch(),
            encoding: VERSION,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The stream of this node.
    pub(crate) fn stream_id(&self) -> NodeStreamId {
        NodeStreamId {
            node: self.node,
            epoch: self.epoch(),
        }
    }

    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// The origin of the next bundle.
    pub(crate) fn next_origin(&self) -> BundleOrigin {
        BundleOrigin {
            node: self.node,
            run: self.run,
            number: self.bundles.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether a bundle came from this process.
    pub(crate) const fn is_of_this_run(&self, origin: BundleOrigin) -> bool {
        origin.node == self.node && origin.run == self.run
    }

    /// A connection begins.
    pub(crate) fn join(&self, outgoing: Arc<OutgoingQueue>) {
        self.outgoing.store(Some(outgoing));
        *self.trouble.lock() = None;
    }

    /// There is no connection, or it is over.
    pub(crate) fn leave(&self, reason: &BackboneError) {
        self.outgoing.store(None);
        self.interest.abandon();
        self.groups.abandon();
        self.questions.leave();
        self.records.leave();
        self.mailboxes.leave();
        self.lessons.leave();
        self.senders.leave();
        self.known_nodes.forget();
        self.note_trouble(reason.to_string());
    }

    pub(crate) fn note_trouble(&self, trouble: String) {
        *self.trouble.lock() = Some(trouble);
    }

    /// The reason why this node is not part of its cluster, or not wholly: a connection that has
    /// begun carries messages at once, but changes of what all nodes have in their databases are
    /// refused until the node has read it.
    fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().clone();
        let unread = || {
            let parts = [
                (
                    self.records.is_followed(),
                    "users, rules and listed senders",
                ),
                (self.mailboxes.is_followed(), "mail"),
                (
                    self.lessons.is_followed() && self.senders.is_followed(),
                    "learned data",
                ),
            ];
            let mut unread = parts.iter().filter(|(is_followed, _)| !is_followed);
            let (_, name) = unread.next()?;
            Some(format!("this node has not read the {name} of its cluster"))
        };
        trouble.or_else(unread)
    }

    pub(crate) fn note_malformed(&self, error: EncodingError) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: "backbone", %error, "a message of another node cannot be read");
    }

    /// These nodes did not confirm a subscription in time.
    pub(crate) fn note_unconfirmed(&self, nodes: &[u8]) {
        self.unconfirmed.fetch_add(1, Ordering::Relaxed);
        self.known_nodes.note_silent(nodes);
        tracing::warn!(target: "backbone", ?nodes,
            "nodes did not confirm a subscription in time; what they publish may be missed for a \
             moment");
    }

    pub(crate) fn count_forwarded(&self, count: u64) {
        self.forwarded.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_position(&self) -> u64 {
        self.stream_position.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stream_position(&self, position: u64) {
        self.stream_position.store(position, Ordering::Relaxed);
    }
}

impl OtherNodes for Shared {
    fn set_interest(&self, filter: &TopicFilter, is_wanted: bool) {
        self.interest.set(filter, is_wanted);
    }

    fn interest_barrier(&self) -> Option<InterestBarrier> {
        match (self.interest.barrier(), self.groups.barrier()) {
            (Some(filters), Some(groups)) => Some(filters.and(groups)),
            (filters, groups) => filters.or(groups),
        }
    }

    fn group_changed(&self, group: &TopicFilter, change: GroupChange) {
        // First: what is in the second list is removed by who finds members in the first one.
        self.groups.note(group, change);
        if change == GroupChange::Emptied {
            let partitions = self.log.partitions.iter();
            for partition in partitions.filter(|one| self.log.may_have(one, group)) {
                partition.groups.emptied.lock().insert(group.clone());
            }
        }
    }

    fn serves_group(&self, group: &TopicFilter, publication: &Publication) -> bool {
        let partition = self.log.partition_of(&publication.topic);
        let known = partition.groups.division.read();
        if publication.qos > Qos::AtMostOnce {
            let own = self.stream_id();
            return known
                .division
                .is_served_by(own, group, publication.id, None);
        }
        let chosen = known.division.choose(group, publication.id, None);
        // Without a connection, no other node gets it.
        chosen.is_none_or(|node| node == self.node) || self.outgoing.load().is_none()
    }

    fn begin_retaining(&self, publication: &Publication) {
        self.retained.begin(publication);
    }

    fn forward(&self, publication: &Arc<Publication>) -> bool {
        if publication.retain {
            self.retained.send(publication);
        }
        if publication.qos > Qos::AtMostOnce {
            return true; // The log has it.
        }
        let outgoing = self.outgoing.load();
        let is_queued = outgoing
            .as_ref()
            .is_some_and(|outgoing| outgoing.push(publication));
        // A retained one reaches the subscribers of other nodes by the stream as well.
        is_queued || publication.retain
    }

    fn has_room_in_log(&self) -> bool {
        self.log.has_room()
    }

    fn keep_until_logged(&self, logged: &LoggedPublication) -> StoreChange {
        kept::put(logged)
    }

    fn append(&self, batch: LoggedBatch<'_>) -> Ticket {
        self.count_forwarded(batch.publications.len() as u64);
        self.log.append(batch)
    }

    fn claim(&self, name: &SessionName, purpose: SessionUse) -> ClaimWait {
        self.moves.claim(name, purpose)
    }

    fn replace_elsewhere(&self, name: &SessionName) {
        self.moves.replace_elsewhere(name);
    }

    fn owns_session(&self, name: &SessionName) -> bool {
        self.moves.owns(name)
    }

    fn session_began(&self, name: &SessionName) {
        self.moves.session_began(name);
    }

    fn session_ended(&self, name: &SessionName) {
        self.moves.session_ended(name);
    }

    fn status(&self) -> NodesStatus {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let times = self.log.append_times();
        NodesStatus {
            this: self.record().into(),
            trouble: self.trouble(),
            others: self
                .known_nodes
                .alive()
                .into_iter()
                .map(LiveNode::from)
                .collect(),
            members: self.questions.members.described(),
            forwarded: of(&self.forwarded),
            received: of(&self.received),
            malformed: of(&self.malformed),
            unreadable: self.unreadable.count()
                + self.records.unreadable.count()
                + self.lessons.unreadable.count()
                + self.senders.unreadable.count(),
            unreadable_reason: self
                .unreadable
                .first()
                .or_else(|| self.records.unreadable.first())
                .or_else(|| self.lessons.unreadable.first())
                .or_else(|| self.senders.unreadable.first()),
            log_waiting: self.log.waiting(),
            log_unread: self.log.unread(),
            log_refused: self.log.refused(),
            log_appends: times.count,
            log_append_time: times.total,
            log_missed: self.log.missed(),
            copy_waiting: self.copy.awaited() as u64,
            sessions_adopted: self.moves.adopted(),
            sessions_released: self.moves.released(),
            mail_bytes: self.mailboxes.bytes(),
            mail_unread: self.mailboxes.unread(),
            lessons_unread: self.lessons.unread() + self.senders.unread(),
            lessons_unsent: self.lessons.unsent() + self.senders.unsent(),
            lessons_dropped: self.lessons.dropped() + self.senders.dropped(),
            retained_unsent: self.retained.unsent() as u64,
            unconfirmed_interest: of(&self.unconfirmed),
        }
    }
}
