//! The promises of the server, and the messages that the clients have received.

use std::collections::{BTreeMap, BTreeSet};

use gatepost_message::Qos;

use crate::sessions::{Existence, Moment, Session};
use crate::topics::{self, FILTERS, SHARED, SHARED_FILTER, TOPICS};

/// A session that must receive a publication: its client and incarnation.
type Receiver = (usize, u64);

/// One publication.
#[derive(Debug)]
struct Sent {
    publisher: usize,
    topic: usize,
    qos: Qos,
    /// Sessions that were subscribed at each attempt to publish it.
    receivers: Option<Vec<Receiver>>,
    /// The group that shares it; `None` where its members are not known.
    group: Option<Vec<Receiver>>,
    is_acknowledged: bool,
    attempts: u64,
    was_refused: bool,
}

/// Whether a will must be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WillDuty {
    Must,
    MustNot,
    Either,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) sessions: Vec<Session>,
    pub(crate) now: Moment,
    sent: BTreeMap<u64, Sent>,
    /// Publications that there was no memory for.
    refused: BTreeSet<u64>,
    /// The number of times a session's client was sent a publication, without retained ones.
    received: BTreeMap<(Receiver, u64), u64>,
    /// The same at QoS 2.
    exactly: BTreeMap<(Receiver, u64), u64>,
    /// The last publication of a publisher, topic, level and level of delivery that a session was
    /// handed.
    last: BTreeMap<(Receiver, usize, usize, Qos, Qos), u64>,
    /// The numbers of publications that each topic may retain, 0 for nothing.
    retained: Vec<Vec<u64>>,
    /// Publishers of which a commit has failed, and nothing that was sent since was acknowledged.
    doubtful: Vec<bool>,
    /// The last number that was given before the last failure.
    failed_after: u64,
    pub(crate) wills: BTreeMap<u64, (Qos, WillDuty)>,
    next: u64,
}

impl Model {
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            sessions: vec![Session::default(); clients],
            doubtful: vec![false; clients],
            retained: vec![vec![0]; TOPICS.len()],
            ..Self::default()
        }
    }

    /// The number of another publication, or will.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The server is handed a publication, perhaps again.
    pub(crate) fn published(
        &mut self,
        number: u64,
        publisher: usize,
        topic: usize,
        qos: Qos,
        retain: Option<u64>,
    ) {
        // One that clears its topic has no number, so it is not known again.
        let is_numbered = retain != Some(0);
        let subscribers = if is_numbered {
            self.subscribers(topic)
        } else {
            Vec::new()
        };
        let group = (topic == SHARED && is_numbered)
            .then(|| self.group())
            .flatten();
        let sent = self.sent.entry(number).or_insert(Sent {
            publisher,
            topic,
            qos,
            receivers: None,
            group: None,
            is_acknowledged: false,
            attempts: 0,
            was_refused: false,
        });
        sent.attempts += 1;
        sent.was_refused |= self.doubtful[publisher] || self.refused.contains(&number);
        match &mut sent.receivers {
            None => sent.receivers = Some(subscribers),
            Some(receivers) => receivers.retain(|receiver| subscribers.contains(receiver)),
        }
        sent.group = group;
        if let Some(value) = retain {
            self.retained[topic].push(value);
        }
    }

    /// The server had no memory for a publication: sent again, it follows later ones.
    pub(crate) fn refused(&mut self, number: u64) {
        self.refused.insert(number);
    }

    pub(crate) fn has_sent(&self, number: u64) -> bool {
        self.sent.contains_key(&number)
    }

    /// Sessions that are subscribed for certain.
    fn subscribers(&self, topic: usize) -> Vec<Receiver> {
        let subscribes = |session: &Session| {
            let mut filters = 0..FILTERS.len();
            filters.any(|filter| {
                filter != SHARED_FILTER
                    && topics::matches(filter, topic)
                    && session.subscribes(filter, self.now)
            })
        };
        self.receivers_where(subscribes)
    }

    fn receivers_where(&self, condition: impl Fn(&Session) -> bool) -> Vec<Receiver> {
        let all = self.sessions.iter().enumerate();
        all.filter(|(_, session)| condition(session))
            .map(|(client, session)| (client, session.incarnation))
            .collect()
    }

    /// The members of the group, where they are known.
    fn group(&self) -> Option<Vec<Receiver>> {
        let may_be_member = |session: &Session| {
            session.existence(self.now) != Existence::No
                && session.subscriptions.contains_key(&SHARED_FILTER)
        };
        let is_member = |session: &Session| session.subscribes(SHARED_FILTER, self.now);
        let members = self.receivers_where(is_member);
        let is_known = members.len() == self.receivers_where(may_be_member).len();
        (is_known && !members.is_empty()).then_some(members)
    }

    /// The publisher has read that its publication was taken.
    pub(crate) fn acknowledged(&mut self, number: u64, retained: Option<u64>) {
        let Some(sent) = self.sent.get_mut(&number) else {
            return;
        };
        sent.is_acknowledged = true;
        if number > self.failed_after {
            self.doubtful[sent.publisher] = false;
        }
        if let Some(value) = retained {
            let values = &mut self.retained[sent.topic];
            if let Some(at) = values.iter().rposition(|known| *known == value) {
                values.drain(..at);
            }
        }
    }

    /// A commit has failed. A refused message that is sent again may arrive after later messages:
    /// the publisher may not have read the refusal.
    pub(crate) fn commit_failed(&mut self) {
        for sent in self.sent.values_mut().filter(|sent| !sent.is_acknowledged) {
            sent.was_refused = true;
        }
        self.doubtful.fill(true);
        self.failed_after = self.next;
    }

    /// A client is handed a publication that was not retained.
    pub(crate) fn received(
        &mut self,
        client: usize,
        topic: usize,
        number: u64,
        qos: Qos,
    ) -> Result<(), String> {
        let receiver = (client, self.sessions[client].incarnation);
        let count = self.received.entry((receiver, number)).or_default();
        *count += 1;
        if qos == Qos::ExactlyOnce {
            *self.exactly.entry((receiver, number)).or_default() += 1;
        }
        let (publisher, published) = match (self.sent.get(&number), self.wills.get(&number)) {
            (Some(sent), _) => (sent.publisher, sent.qos),
            (None, Some((published, duty))) => {
                if *duty == WillDuty::MustNot {
                    return Err(format!("the will {number} was published"));
                }
                (usize::MAX, *published)
            }
            (None, None) => return Err(format!("publication {number} was never sent")),
        };
        let exactly = self.exactly.get(&(receiver, number));
        if exactly > Some(&1) && published == Qos::ExactlyOnce {
            return Err(format!(
                "client {client} received {number} of topic {topic} more than once"
            ));
        }
        if *count > 1 {
            return Ok(());
        }
        let has_order = self.sent.get(&number).is_some_and(|sent| {
            let receivers = sent.receivers.iter().flatten();
            let was_subscribed = receivers.copied().any(|known| known == receiver);
            !sent.was_refused && (sent.attempts == 1 || was_subscribed)
        });
        if !has_order {
            // A will; or it was sent again, and the session was not subscribed at first.
            return Ok(());
        }
        let order = (receiver, publisher, topic, published, qos);
        match self.last.insert(order, number) {
            Some(last) if last > number => Err(format!(
                "client {client} received {number} of topic {topic} after {last}"
            )),
            _ => Ok(()),
        }
    }

    /// Compares the retained message of a topic with the model; 0 stands for none.
    pub(crate) fn check_retained(&self, topic: usize, value: u64) -> Result<(), String> {
        if self.retained[topic].contains(&value) {
            return Ok(());
        }
        Err(format!(
            "topic {topic} retains {value}, and not one of {:?}",
            self.retained[topic]
        ))
    }

    /// At the end, when every client has received all there was.
    pub(crate) fn check_received(&self) -> Result<(), String> {
        let is_there = |receiver: &Receiver| {
            let session = &self.sessions[receiver.0];
            session.incarnation == receiver.1 && session.existence(self.now) == Existence::Yes
        };
        for (number, sent) in self.sent.iter().filter(|(_, sent)| sent.is_acknowledged) {
            let has_received = |receiver: &Receiver| {
                let receiver = *receiver;
                self.received.contains_key(&(receiver, *number))
            };
            let receivers = sent.receivers.iter().flatten();
            let mut lost =
                receivers.filter(|receiver| is_there(receiver) && !has_received(receiver));
            if let Some((client, _)) = lost.next() {
                return Err(format!(
                    "{number} of topic {} was acknowledged, and client {client} has not received \
                     it",
                    sent.topic
                ));
            }
            if let Some(group) = &sent.group
                && group.iter().all(is_there)
                && !group.iter().any(has_received)
            {
                return Err(format!(
                    "{number} was acknowledged, and no member of its group has received it"
                ));
            }
        }
        Ok(())
    }

    /// The same of wills, whose witness is the first client.
    pub(crate) fn check_wills(&self) -> Result<(), String> {
        let witness = (0, self.sessions[0].incarnation);
        for (number, (_, duty)) in &self.wills {
            let is_published = self.received.contains_key(&(witness, *number));
            if *duty == WillDuty::Must && !is_published {
                return Err(format!("the will {number} is lost"));
            }
        }
        Ok(())
    }
}
