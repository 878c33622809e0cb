//! One entry of the index: who is to get what matches a filter, and how.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::Qos;
use parking_lot::RwLock;
use smallvec::SmallVec;

use crate::filter::SubscribeOptions;
use crate::reader::Queue;
use crate::session::Session;

/// Who gets what matches. Kept small: there may be millions.
#[derive(Clone)]
pub(crate) enum Subscription {
    /// A session of its own.
    Session(Member),
    /// One member of a group in turn.
    Group(Arc<Group>),
    /// A reader within this process.
    Reader(Arc<Queue>),
}

/// A session, and how it wishes to be served.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) session: Arc<Session>,
    pub(crate) identifier: Option<NonZeroU32>,
    pub(crate) qos: Qos,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
}

impl Member {
    pub(crate) fn new(session: Arc<Session>, options: SubscribeOptions) -> Self {
        Self {
            session,
            identifier: options.identifier,
            qos: options.qos,
            no_local: options.no_local,
            retain_as_published: options.retain_as_published,
        }
    }

    pub(crate) fn is(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }
}

/// The members of a shared subscription (MQTT 5 § 4.8.2).
pub(crate) struct Group {
    pub(crate) name: Box<str>,
    pub(crate) members: RwLock<Vec<Member>>,
    turn: AtomicUsize,
}

impl Group {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            members: RwLock::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The member whose turn it is: the next that is connected and not congested, else the next
    /// connected, else any (whose session then keeps the message) \[MQTT-4.8.2-4\].
    pub(crate) fn next_member(&self) -> Option<Member> {
        let members = self.members.read();
        let count = members.len();
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..count).map(|step| &members[start.wrapping_add(step) % count]);
        in_turn()
            .find(|member| member.session.is_ready())
            .or_else(|| in_turn().find(|member| member.session.is_connected()))
            .or_else(|| in_turn().next())
            .cloned()
    }
}

/// A session that a publication goes to, after overlapping subscriptions are merged into one
/// delivery at the highest of their levels \[MQTT-3.3.4-2\], with all their identifiers
/// \[MQTT-3.3.4-3\].
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) session: Arc<Session>,
    pub(crate) qos: Qos,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
}

impl From<&Member> for Target {
    fn from(member: &Member) -> Self {
        Self {
            session: member.session.clone(),
            qos: member.qos,
            no_local: member.no_local,
            retain_as_published: member.retain_as_published,
            identifiers: member.identifier.iter().map(|id| id.get()).collect(),
        }
    }
}

impl Target {
    /// Takes in another subscription of the same session.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.qos = self.qos.max(other.qos);
        self.no_local &= other.no_local;
        self.retain_as_published |= other.retain_as_published;
        self.identifiers.extend_from_slice(&other.identifiers);
    }
}
