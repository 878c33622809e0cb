//! The groups of shared subscriptions in the index.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatepost_message::TopicFilter;

use super::Index;
use crate::filter::SharedFilter;
use crate::nodes::GroupChange;
use crate::session::{Session, SessionFilters};
use crate::subscription::{GroupMember, SharedGroup, Subscription};

impl Index {
    /// Makes `member` one of the group `name` that shares `filter`, in place of its earlier entry;
    /// returns whether there was one.
    pub(crate) fn join(&self, filter: &TopicFilter, name: &str, member: GroupMember) -> bool {
        let existed = self.change(filter, |list| {
            let group = list
                .as_slice()
                .iter()
                .find_map(|subscription| match subscription {
                    Subscription::Group(group) if &*group.name == name => Some(group.clone()),
                    _ => None,
                });
            let group = group.unwrap_or_else(|| {
                let group = Arc::new(SharedGroup::new(name, self.announced(filter, name)));
                list.push(Subscription::Group(group.clone()));
                group
            });
            let mut members = group.members.write();
            let earlier = members.iter().position(|other| other.is(&member.session));
            if let Some(at) = earlier {
                members.swap_remove(at);
            }
            members.push(member);
            self.note_group(&group, GroupChange::Joined);
            earlier.is_some()
        });
        if !existed {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        existed
    }

    /// Removes `session` from the group; an empty group is removed.
    pub(crate) fn leave(&self, filter: &TopicFilter, name: &str, session: &Arc<Session>) -> bool {
        let existed = self.change(filter, |list| {
            let is_group = |subscription: &Subscription| {
                matches!(subscription, Subscription::Group(group) if &*group.name == name)
            };
            let Some(Subscription::Group(group)) =
                list.as_slice().iter().find(|&subscription| is_group(subscription))
            else {
                return false;
            };
            let mut members = group.members.write();
            let before = members.len();
            members.retain(|member| !member.is(session));
            let (existed, is_gone) = (members.len() < before, members.is_empty());
            // Under the lock: who finds no member knows that the nodes were informed.
            match (existed, is_gone) {
                (true, true) => self.note_group(group, GroupChange::Emptied),
                (true, false) => self.note_group(group, GroupChange::Varied),
                (false, _) => {}
            }
            drop(members);
            if is_gone {
                list.remove(&is_group);
            }
            existed
        });
        if existed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        existed
    }

    /// The text of a shared subscription that other nodes have to know.
    fn announced(&self, filter: &TopicFilter, name: &str) -> Option<TopicFilter> {
        self.nodes.as_ref()?;
        let is_shared = !filter.as_str().starts_with('$');
        let text = is_shared.then(|| format!("$share/{name}/{}", filter.as_str()))?;
        TopicFilter::new(&text).ok()
    }

    fn note_group(&self, group: &SharedGroup, change: GroupChange) {
        if let (Some(nodes), Some(text)) = (&self.nodes, &group.text) {
            nodes.group_changed(text, change);
        }
    }

    /// Informs the other nodes that the session, which is a member of these shared subscriptions,
    /// has connected or disconnected.
    pub(crate) fn note_connection(&self, filters: &SessionFilters) {
        if let Some(nodes) = &self.nodes {
            for text in filters.shared() {
                nodes.group_changed(text, GroupChange::Varied);
            }
        }
    }

    /// The group of a shared subscription, if it has members here.
    pub(crate) fn group(&self, share: &SharedFilter) -> Option<Arc<SharedGroup>> {
        self.find_in(&share.filter, |list| {
            list.as_slice().iter().find_map(|one| match one {
                Subscription::Group(group) if *group.name == *share.name => Some(group.clone()),
                _ => None,
            })
        })
    }
}
