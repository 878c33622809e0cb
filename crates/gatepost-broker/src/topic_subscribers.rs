//! The subscribers of one topic, for operators: those that a publication on it would reach now.
//!
//! The index finds them as it does for a publisher; the filters by which they match are read from
//! the sessions that are shown only, so that a topic with very many subscribers costs little.

use std::sync::Arc;

use gatepost_message::TopicFilter;

use crate::broker::Broker;
use crate::filter::RequestedFilter;
use crate::session::Session;
use crate::session_table::SessionTable;
use crate::subscription::Subscription;

/// The subscribers of one topic at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSubscribers {
    /// The requested part of the sessions, sorted by client id.
    pub sessions: Vec<TopicSubscriber>,
    /// The number of all sessions.
    pub total: usize,
    /// The number of readers in this process: event streams of HTTP, sinks that need no session.
    pub readers: usize,
}

/// One session that is subscribed to the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSubscriber {
    /// The client id.
    pub client: String,
    /// The user; `None` without a login.
    pub user: Option<String>,
    /// Whether the client is connected.
    pub connected: bool,
    /// The filters that match, as the client requested them: `$share/GROUP/FILTER` for a group, of
    /// which one member receives each publication.
    pub filters: Vec<TopicFilter>,
}

impl Broker {
    /// The subscribers of a topic on this node: at most `count` sessions after the first `skip`.
    pub fn subscribers(&self, topic: &str, skip: usize, count: usize) -> TopicSubscribers {
        of_topic(&self.0.sessions, topic, skip, count)
    }
}

/// The subscribers of `topic`: at most `count` sessions after the first `skip`.
fn of_topic(table: &SessionTable, topic: &str, skip: usize, count: usize) -> TopicSubscribers {
    let index = &table.shared().index;
    let (mut sessions, mut readers) = (Vec::new(), 0);
    index.visit(topic, index.topic_hash(topic), &mut |one| match one {
        Subscription::Session(member) => sessions.push(member.session.clone()),
        Subscription::Group(group) => {
            let members = group.members.read();
            sessions.extend(members.iter().map(|member| member.session.clone()));
        }
        Subscription::Reader(_) => readers += 1,
    });
    sessions.sort_by(|one, other| {
        let by_id = one.client_id().cmp(other.client_id());
        by_id.then_with(|| Arc::as_ptr(one).cmp(&Arc::as_ptr(other)))
    });
    sessions.dedup_by(|one, other| Arc::ptr_eq(one, other));
    let shown = sessions.iter().skip(skip).take(count);
    TopicSubscribers {
        sessions: shown.map(|session| subscriber(session, topic)).collect(),
        total: sessions.len(),
        readers,
    }
}

fn subscriber(session: &Session, topic: &str) -> TopicSubscriber {
    let matches = |filter: &&TopicFilter| {
        RequestedFilter::new(filter.as_str()).is_ok_and(|requested| match requested.share {
            Some(share) => share.filter.matches(topic),
            None => filter.matches(topic),
        })
    };
    let mut filters: Vec<TopicFilter> = session
        .filters
        .lock()
        .iter()
        .filter(matches)
        .cloned()
        .collect();
    filters.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    TopicSubscriber {
        client: session.client_id().to_owned(),
        user: session.lock().user.as_deref().map(str::to_owned),
        connected: session.is_connected(),
        filters,
    }
}
