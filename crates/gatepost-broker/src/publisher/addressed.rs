//! Publications that the session of one client must take, whether or not others receive them.

use gatepost_message::Publication;

use super::{PublishOutcome, PublishRefusal, Publisher};

impl Publisher {
    /// As [`Publisher::publish`], for the session of this client, which belongs to no user: the
    /// publication is refused if that session's queue is full, even if others have received it.
    /// `None`, and nothing is published, if that session does not subscribe to the topic.
    pub fn publish_for(
        &mut self,
        client_id: &str,
        publication: Publication,
    ) -> Option<PublishOutcome> {
        let slot = self.slot_of(&publication.topic);
        let route = self.route(slot);
        let classes = route.classes.iter().flat_map(|class| &class.targets);
        let ordinal = classes.chain(&route.singles).find_map(|target| {
            let session = &target.session;
            let is_wanted = session.client_id() == client_id && session.lock().user.is_none();
            is_wanted.then_some(session.ordinal)
        })?;
        let mut outcome = self.publish_at(slot, publication);
        if self.refused_by.contains(&ordinal) {
            outcome.refused.get_or_insert(PublishRefusal::Queues);
        }
        Some(outcome)
    }
}
