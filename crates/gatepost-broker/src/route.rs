//! Receivers of the publications of one topic: the result of the match, grouped by delivery mode.

use std::sync::Arc;

use gatepost_message::Qos;

use crate::encoder::WireFormat;
use crate::index::{Index, TopicHash};
use crate::session::{DeliveryMode, Session};
use crate::stream_queue::StreamQueue;
use crate::subscription::{DeliveryTarget, SharedGroup, Subscription};

/// Sessions that share the bytes of QoS 0 frames.
pub(crate) struct FormatTargets {
    pub(crate) format: WireFormat,
    pub(crate) targets: Vec<DeliveryTarget>,
}

/// All receivers of a topic.
#[derive(Default)]
pub(crate) struct Route {
    pub(crate) classes: Vec<FormatTargets>,
    /// Sessions that need frames of their own (identifiers, aliases, a size limit) or are not
    /// connected.
    pub(crate) singles: Vec<DeliveryTarget>,
    pub(crate) groups: Vec<Arc<SharedGroup>>,
    pub(crate) readers: Vec<Arc<StreamQueue>>,
}

impl Route {
    pub(crate) fn find(index: &Index, topic: &str, hash: TopicHash) -> Self {
        let mut route = Self::default();
        let mut targets: Vec<DeliveryTarget> = Vec::new();
        index.visit(topic, hash, &mut |subscription| match subscription {
            Subscription::Session(member) => targets.push(member.into()),
            Subscription::Group(group) => route.groups.push(group.clone()),
            Subscription::Reader(queue) => route.readers.push(queue.clone()),
        });
        // One reader may match through several of its filters.
        route.readers.sort_unstable_by_key(Arc::as_ptr);
        route
            .readers
            .dedup_by(|later, earlier| Arc::ptr_eq(later, earlier));
        merge_overlapping(&mut targets);
        for target in targets {
            route.add(target);
        }
        route
    }

    fn add(&mut self, target: DeliveryTarget) {
        let format = match target.session.delivery_mode() {
            DeliveryMode::Shared(format) if target.options.identifiers.is_empty() => format,
            _ => {
                self.singles.push(target);
                return;
            }
        };
        let class = self
            .classes
            .iter_mut()
            .find(|class| class.format.shares_bytes_with(&format));
        match class {
            Some(class) => class.targets.push(target),
            None => self.classes.push(FormatTargets {
                format,
                targets: vec![target],
            }),
        }
    }

    /// Whether a receiving session at QoS 1 or 2 has its queue on disk.
    pub(crate) fn has_session_on_disk(&self) -> bool {
        let is_on_disk = |session: &Session, qos| qos > Qos::AtMostOnce && session.is_on_disk();
        let mut singles = self.singles.iter();
        singles.any(|target| is_on_disk(&target.session, target.options.qos))
            || self.groups.iter().any(|group| {
                let members = group.members.read();
                let mut members = members.iter();
                members.any(|member| is_on_disk(&member.session, member.qos))
            })
    }

    /// The number of receivers of a publication.
    pub(crate) fn receivers(&self) -> usize {
        let in_classes: usize = self.classes.iter().map(|class| class.targets.len()).sum();
        in_classes + self.singles.len() + self.groups.len() + self.readers.len()
    }
}

fn merge_overlapping(targets: &mut Vec<DeliveryTarget>) {
    // The sort is stable, so that identifiers keep the order in which they were found.
    targets.sort_by_key(|target| target.session.ordinal);
    targets.dedup_by(|later, earlier| {
        let is_same = same(&later.session, &earlier.session);
        if is_same {
            earlier.options.merge(&later.options);
        }
        is_same
    });
}

fn same(one: &Arc<Session>, other: &Arc<Session>) -> bool {
    Arc::ptr_eq(one, other)
}
