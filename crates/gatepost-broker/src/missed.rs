//! The publications of the log that a session has missed on its way to this server, as far as its
//! queue can take them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use gatepost_message::{Publication, Qos};

use crate::filter::{DeliveryOptions, RequestedFilter, SubscribeOptions};
use crate::nodes::LoggedPublication;
use crate::settings::{BrokerSettings, SlowSubscriber};
use crate::weight::content_bytes;

/// The publications that a session of another server has missed, which
/// [`Broker::missed_by`](crate::Broker::missed_by) begins. It keeps no more than the queue of the
/// session can take, however many there are.
pub struct MissedPublications {
    requested: Vec<(RequestedFilter, SubscribeOptions)>,
    /// The number of the session.
    session: u64,
    policy: SlowSubscriber,
    messages_max: usize,
    bytes_max: usize,
    pub(crate) kept: VecDeque<MissedPublication>,
    bytes: usize,
    /// Publications for which the queue would have had no room.
    pub(crate) dropped: u64,
    /// Publications that a later one of the same topic replaces.
    pub(crate) superseded: u64,
}

/// A publication, and how the session receives it.
pub(crate) struct MissedPublication {
    pub(crate) publication: Arc<Publication>,
    pub(crate) options: DeliveryOptions,
}

impl MissedPublications {
    pub(crate) const fn new(
        requested: Vec<(RequestedFilter, SubscribeOptions)>,
        session: u64,
        policy: SlowSubscriber,
        settings: &BrokerSettings,
    ) -> Self {
        Self {
            requested,
            session,
            policy,
            messages_max: settings.queue_messages_max,
            bytes_max: settings.queue_bytes_max.as_usize(),
            kept: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            superseded: 0,
        }
    }

    /// Adds a publication, if a subscription of the session matches it. Publications are added in
    /// their order. If there are too many, those are kept that the queue would keep.
    pub fn add(&mut self, logged: &LoggedPublication) {
        let publication = &logged.publication;
        let is_own = logged.session == Some(self.session);
        let Some(options) = options_for(&self.requested, publication, is_own) else {
            return;
        };
        let bytes = content_bytes(publication);
        match self.policy {
            SlowSubscriber::DropOldest => self.drop_oldest(bytes),
            SlowSubscriber::NewestOnly => {
                // Topics are compared now and then, not with each publication.
                if !self.has_room(bytes, 2) {
                    self.supersede();
                    self.drop_oldest(bytes);
                }
            }
            SlowSubscriber::SlowPublisher
            | SlowSubscriber::DropNewest
            | SlowSubscriber::Disconnect => {
                if !self.has_room(bytes, 1) {
                    self.dropped += 1;
                    return;
                }
            }
        }
        self.bytes += bytes;
        self.kept.push_back(MissedPublication {
            publication: publication.clone(),
            options,
        });
    }

    /// Whether another publication fits into this many times the bounds of the queue.
    fn has_room(&self, bytes: usize, factor: usize) -> bool {
        self.kept.len() < self.messages_max.saturating_mul(factor)
            && self.bytes + bytes <= self.bytes_max.saturating_mul(factor)
    }

    fn drop_oldest(&mut self, bytes: usize) {
        while !self.has_room(bytes, 1)
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= content_bytes(&oldest.publication);
            self.dropped += 1;
        }
    }

    /// Keeps the newest publication of each topic.
    fn supersede(&mut self) {
        let before = self.kept.len();
        let mut newer = HashSet::new();
        let mut newest = VecDeque::new();
        for one in self.kept.drain(..).rev() {
            if newer.insert(one.publication.topic.clone()) {
                newest.push_front(one);
            }
        }
        self.kept = newest;
        self.superseded += (before - self.kept.len()) as u64;
        let bytes = self.kept.iter();
        self.bytes = bytes.map(|one| content_bytes(&one.publication)).sum();
    }
}

/// The options under which a publication is delivered to a session with these subscriptions, `None`
/// if none matches at QoS 1 or 2. The members of a shared subscription are served by their node.
fn options_for(
    requested: &[(RequestedFilter, SubscribeOptions)],
    publication: &Publication,
    is_own: bool,
) -> Option<DeliveryOptions> {
    let mut merged: Option<DeliveryOptions> = None;
    for (requested, options) in requested {
        let is_plain = requested.share.is_none();
        if !is_plain || !requested.text.matches(publication.topic.as_str()) {
            continue;
        }
        if is_own && options.no_local {
            continue; // [MQTT-3.8.3-3]
        }
        let options = DeliveryOptions::from(options);
        match &mut merged {
            Some(merged) => merged.merge(&options),
            None => merged = Some(options),
        }
    }
    merged.filter(|merged| merged.qos > Qos::AtMostOnce)
}

#[cfg(test)]
mod tests {
    use gatepost_message::Topic;
    use gatepost_settings::ByteSize;

    use super::*;
    use crate::filter::RetainHandling;

    const SESSION: u64 = 7;

    fn missed(policy: SlowSubscriber, messages_max: usize) -> MissedPublications {
        let settings = BrokerSettings {
            queue_messages_max: messages_max,
            queue_bytes_max: ByteSize::mebibytes(1),
            ..BrokerSettings::default()
        };
        let options = SubscribeOptions {
            qos: Qos::AtLeastOnce,
            no_local: true,
            retain_as_published: false,
            retain_handling: RetainHandling::DoNotSend,
            identifier: None,
        };
        let filter = RequestedFilter::new("in/#").expect("a filter");
        MissedPublications::new(vec![(filter, options)], SESSION, policy, &settings)
    }

    fn logged(topic: &str, payload: &[u8]) -> LoggedPublication {
        let topic = Topic::new(topic).expect("a topic");
        let mut publication = Publication::new(topic, payload.to_vec());
        publication.qos = Qos::AtLeastOnce;
        LoggedPublication {
            publication: Arc::new(publication),
            session: None,
            passed_on: None,
        }
    }

    fn payloads(missed: &MissedPublications) -> Vec<u8> {
        let kept = missed.kept.iter();
        kept.map(|one| one.publication.payload[0]).collect()
    }

    #[test]
    fn what_the_session_has_not_subscribed_to_is_not_kept() {
        let mut missed = missed(SlowSubscriber::DropNewest, 10);
        missed.add(&logged("out/a", &[1]));
        let own = LoggedPublication {
            session: Some(SESSION),
            ..logged("in/a", &[2])
        };
        missed.add(&own);
        missed.add(&logged("in/a", &[3]));
        assert_eq!(payloads(&missed), [3]);
        assert_eq!((missed.dropped, missed.superseded), (0, 0));
    }

    #[test]
    fn no_more_is_kept_than_the_queue_can_take() {
        for (policy, expected) in [
            (SlowSubscriber::SlowPublisher, [0, 1, 2]),
            (SlowSubscriber::DropNewest, [0, 1, 2]),
            (SlowSubscriber::DropOldest, [7, 8, 9]),
        ] {
            let mut missed = missed(policy, 3);
            for number in 0..10 {
                missed.add(&logged("in/a", &[number]));
            }
            assert_eq!(payloads(&missed), expected, "{policy:?}");
            assert_eq!(missed.dropped, 7);
        }
        let mut missed = missed(SlowSubscriber::DropOldest, 100);
        for number in 0..10 {
            missed.add(&logged("in/a", &vec![number; 400_000]));
        }
        assert_eq!(payloads(&missed), [8, 9], "the bytes count too");
    }

    #[test]
    fn the_newest_publication_of_a_rare_topic_is_kept() {
        let mut missed = missed(SlowSubscriber::NewestOnly, 3);
        missed.add(&logged("in/rare", &[100]));
        for number in 0..50 {
            missed.add(&logged("in/often", &[number]));
        }
        let kept = payloads(&missed);
        assert_eq!((kept.first(), kept.last()), (Some(&100), Some(&49)));
        assert!(kept.len() <= 6, "{kept:?}");
        assert_eq!(missed.dropped, 0);
        assert_eq!(missed.superseded + kept.len() as u64, 51);
    }
}
