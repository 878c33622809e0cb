//! Publications that go to another member of a shared subscription, since the node that was to
//! serve them has none.

use std::sync::Arc;
use std::time::SystemTime;

use gatepost_broker::{LoggedPublication, PassedOn, RequestedFilter};
use gatepost_message::{MessageId, TopicFilter};

/// The publication for this shared subscription alone, under an id of its own; `None` if it has
/// expired.
pub(crate) fn passed_on(
    logged: &LoggedPublication,
    group: TopicFilter,
    now: SystemTime,
) -> Option<LoggedPublication> {
    let original = logged.publication.id;
    let left = logged.publication.expiry_seconds_left(now);
    if left == Some(0) {
        return None;
    }
    let mut publication = (*logged.publication).clone();
    publication.id = MessageId::next();
    if let (Some(left), Some(properties)) = (left, &mut publication.properties) {
        properties.expiry_seconds = Some(left);
    }
    Some(LoggedPublication {
        publication: Arc::new(publication),
        session: logged.session,
        passed_on: Some(PassedOn { group, original }),
    })
}

/// Whether a shared subscription gets publications of a topic.
pub(crate) fn matches(group: &TopicFilter, topic: &str) -> bool {
    let requested = RequestedFilter::new(group.as_str());
    requested.is_ok_and(|one| one.matched().matches(topic))
}
