//! One entry of the index: a receiver of publications under a filter, and its options.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::{Qos, TopicFilter};
use parking_lot::RwLock;

use crate::filter::{DeliveryOptions, SubscribeOptions};
use crate::nodes::GroupMembers;
use crate::session::Session;
use crate::stream_queue::StreamQueue;

/// A receiver of matching publications. The type is small, since there may be millions.
#[derive(Clone)]
pub(crate) enum Subscription {
    /// A single session.
    Session(GroupMember),
    /// The members of a group take turns: each publication is delivered to one.
    Group(Arc<SharedGroup>),
    /// A reader within this process.
    Reader(Arc<StreamQueue>),
}

/// A session, and the options of its subscription.
#[derive(Clone)]
pub(crate) struct GroupMember {
    pub(crate) session: Arc<Session>,
    pub(crate) identifier: Option<NonZeroU32>,
    pub(crate) qos: Qos,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
}

impl GroupMember {
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

/// The members of a shared subscription (MQTT 5 section 4.8.2).
pub(crate) struct SharedGroup {
    pub(crate) name: Box<str>,
    /// The whole shared subscription, `$share/NAME/FILTER`, if other servers have to know it.
    pub(crate) text: Option<TopicFilter>,
    pub(crate) members: RwLock<Vec<GroupMember>>,
    turn: AtomicUsize,
}

impl SharedGroup {
    pub(crate) fn new(name: &str, text: Option<TopicFilter>) -> Self {
        Self {
            name: name.into(),
            text,
            members: RwLock::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The member whose turn it is: the next that is connected and not congested, else the next
    /// connected, else any (whose session then keeps the message) \[MQTT-4.8.2-4\]; of all these
    /// first one whose queue has room.
    pub(crate) fn next_member(&self) -> Option<GroupMember> {
        let members = self.members.read();
        let count = members.len();
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..count).map(|step| &members[start.wrapping_add(step) % count]);
        let with_room = || in_turn().filter(|member| !member.session.has_full_queue());
        with_room()
            .find(|member| member.session.is_ready())
            .or_else(|| with_room().find(|member| member.session.is_connected()))
            .or_else(|| with_room().next())
            .or_else(|| in_turn().next())
            .cloned()
    }
}

impl From<&[GroupMember]> for GroupMembers {
    fn from(members: &[GroupMember]) -> Self {
        let connected = members
            .iter()
            .filter(|member| member.session.is_connected());
        Self {
            connected: connected.count() as u32,
            all: members.len() as u32,
        }
    }
}

/// A session that a publication goes to, after its overlapping subscriptions are merged into one
/// delivery.
#[derive(Clone)]
pub(crate) struct DeliveryTarget {
    pub(crate) session: Arc<Session>,
    pub(crate) options: DeliveryOptions,
}

impl From<&GroupMember> for DeliveryTarget {
    fn from(member: &GroupMember) -> Self {
        Self {
            session: member.session.clone(),
            options: DeliveryOptions::new(
                member.qos,
                member.no_local,
                member.retain_as_published,
                member.identifier,
            ),
        }
    }
}
