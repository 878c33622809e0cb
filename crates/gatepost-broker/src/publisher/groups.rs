//! Delivery to shared subscriptions: to one member each, on one server.
//!
//! A publication that no member takes, since the last one has just left, may have members on other
//! servers. So the backbone asks after each publication of the log which groups were served.

use std::sync::Arc;

use gatepost_message::{Publication, TopicFilter};

use super::Publisher;
use crate::filter::RequestedFilter;
use crate::nodes::{LoggedPublication, OutOfMemory};
use crate::route::Route;
use crate::subscription::{DeliveryTarget, SharedGroup};

impl Publisher {
    /// Delivers to each group that this server serves.
    pub(super) fn deliver_to_groups(&mut self, route: &Route, publication: &Arc<Publication>) {
        for group in &route.groups {
            if self.serves(group, publication) {
                self.deliver_to_group(group, publication);
            }
        }
    }

    fn serves(&self, group: &SharedGroup, publication: &Publication) -> bool {
        let (Some(nodes), Some(text)) = (&self.shared.nodes, &group.text) else {
            return true;
        };
        publication.topic.is_internal() || nodes.serves_group(text, publication)
    }

    /// Delivers to the member whose turn it is. A session that has ended is about to leave its
    /// groups: then it is the turn of another.
    fn deliver_to_group(&mut self, group: &SharedGroup, publication: &Arc<Publication>) {
        for _ in 0..=group.members.read().len() {
            let Some(member) = group.next_member() else {
                return;
            };
            let target = DeliveryTarget::from(&member);
            if self.deliver_to_member(&target.session, &target.options, publication) {
                if self.is_of_other_nodes {
                    self.served_groups.extend(group.text.clone());
                }
                return;
            }
        }
    }

    /// Delivers a publication of the log to this shared subscription alone.
    pub fn deliver_to_group_only(
        &mut self,
        group: &TopicFilter,
        logged: &LoggedPublication,
    ) -> Result<(), OutOfMemory> {
        let publication = &logged.publication;
        let slot = self.slot_of(&publication.topic);
        if self.is_short_of_memory(slot) {
            return Err(OutOfMemory);
        }
        self.served_groups.clear();
        let requested = RequestedFilter::new(group.as_str()).ok();
        let share = requested.and_then(|requested| requested.share);
        if let Some(group) = share.and_then(|share| self.shared.index.group(&share)) {
            self.close_run(false);
            self.deliver_to_group(&group, publication);
        }
        Ok(())
    }

    /// Whether a member of the shared subscription received the last publication of the log.
    pub fn has_served(&self, group: &TopicFilter) -> bool {
        self.served_groups.contains(group)
    }
}
