//! A subscriber's request: a filter, plain or shared, and its options.

use std::num::NonZeroU32;

use gatepost_message::{Qos, TopicError, TopicFilter};
use smallvec::SmallVec;

/// The options of a subscription (MQTT 5 section 3.8.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// The highest QoS of deliveries.
    pub qos: Qos,
    /// Publications of the same session are not delivered.
    pub no_local: bool,
    /// Keep the retain flag as the publisher set it.
    pub retain_as_published: bool,
    /// The condition for sending the retained messages.
    pub retain_handling: RetainHandling,
    /// A number that deliveries carry.
    pub identifier: Option<NonZeroU32>,
}

impl SubscribeOptions {
    /// Options with only a QoS, as in MQTT 3.1.1.
    pub const fn at(qos: Qos) -> Self {
        Self {
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
            identifier: None,
        }
    }
}

/// The combined options of all subscriptions of one session that match a topic.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryOptions {
    pub(crate) qos: Qos,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
    /// The options of the subscriptions without No Local, if there are others too.
    of_own: Option<Box<Self>>,
}

impl From<&SubscribeOptions> for DeliveryOptions {
    fn from(options: &SubscribeOptions) -> Self {
        Self::new(
            options.qos,
            options.no_local,
            options.retain_as_published,
            options.identifier,
        )
    }
}

impl DeliveryOptions {
    /// The options of one subscription.
    pub(crate) fn new(
        qos: Qos,
        no_local: bool,
        retain_as_published: bool,
        identifier: Option<NonZeroU32>,
    ) -> Self {
        Self {
            qos,
            no_local,
            retain_as_published,
            identifiers: identifier.iter().map(|id| id.get()).collect(),
            of_own: None,
        }
    }

    /// The options for publications of the session itself: those of its subscriptions without No
    /// Local; `None` if it has no others \[MQTT-3.8.3-3\].
    pub(crate) fn of_own(&self) -> Option<&Self> {
        match &self.of_own {
            Some(of_own) => Some(of_own),
            None => (!self.no_local).then_some(self),
        }
    }

    /// Whether publications of the session itself are delivered under other options, or not at all.
    pub(crate) const fn differs_for_own(&self) -> bool {
        self.no_local || self.of_own.is_some()
    }

    /// Adds another subscription: the highest QoS counts \[MQTT-3.3.4-2\], and a delivery carries
    /// all identifiers \[MQTT-3.3.4-3\].
    pub(crate) fn merge(&mut self, other: &Self) {
        let is_mixed = self.no_local != other.no_local;
        if is_mixed || self.of_own.is_some() || other.of_own.is_some() {
            let mut of_own = self.of_own().cloned();
            match (&mut of_own, other.of_own()) {
                (Some(merged), Some(other)) => merged.merge(other),
                (None, other) => of_own = other.cloned(),
                (Some(_), None) => {}
            }
            self.of_own = of_own.map(Box::new);
        }
        self.qos = self.qos.max(other.qos);
        self.no_local &= other.no_local;
        self.retain_as_published |= other.retain_as_published;
        self.identifiers.extend_from_slice(&other.identifiers);
    }
}

/// The condition under which a subscription is sent retained messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetainHandling {
    /// At each SUBSCRIBE.
    Send,
    /// Only when the subscription is new.
    SendIfNew,
    /// Never.
    DoNotSend,
}

/// A filter as subscribers write it: `alarms/#` or `$share/group/alarms/#`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedFilter {
    /// The whole text.
    pub text: TopicFilter,
    /// The share name, if it is shared (section 4.8.2).
    pub share: Option<SharedFilter>,
}

/// A shared subscription's two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFilter {
    /// Its name.
    pub name: String,
    /// The topic filter of the group.
    pub filter: TopicFilter,
}

/// The reason why a text is not a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The filter itself.
    #[error(transparent)]
    Filter(#[from] TopicError),
    /// \[MQTT-4.8.2-1\], \[MQTT-4.8.2-2\]
    #[error("a shared subscription is written $share/NAME/FILTER, with no wildcard in the name")]
    Share,
}

impl RequestedFilter {
    /// Checks a filter.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let whole = TopicFilter::new(text)?;
        let share = match text.strip_prefix("$share") {
            Some("") => return Err(FilterError::Share),
            Some(rest) => rest.strip_prefix('/').map(SharedFilter::new).transpose()?,
            None => None,
        };
        Ok(Self { text: whole, share })
    }

    /// The filter that topics are matched against.
    pub fn matched(&self) -> &TopicFilter {
        self.share
            .as_ref()
            .map_or(&self.text, |share| &share.filter)
    }
}

impl SharedFilter {
    fn new(text: &str) -> Result<Self, FilterError> {
        let (name, filter) = text.split_once('/').ok_or(FilterError::Share)?;
        if name.is_empty() || name.contains(['+', '#']) || filter.is_empty() {
            return Err(FilterError::Share);
        }
        Ok(Self {
            name: name.to_owned(),
            filter: TopicFilter::new(filter)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_publications_are_delivered_as_the_subscriptions_without_no_local_say() {
        let options = |qos, no_local, identifier| {
            DeliveryOptions::new(qos, no_local, false, NonZeroU32::new(identifier))
        };
        let all = [
            options(Qos::ExactlyOnce, true, 1),
            options(Qos::AtMostOnce, false, 2),
            options(Qos::AtLeastOnce, false, 3),
            options(Qos::ExactlyOnce, true, 4),
        ];
        let merged = |indices: &[usize]| {
            let mut chosen = indices.iter().map(|&index| &all[index]);
            let mut merged = chosen.next().expect("one").clone();
            chosen.for_each(|other| merged.merge(other));
            merged
        };
        for order in [[0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0]] {
            let merged = merged(&order);
            assert_eq!(
                (merged.qos, merged.identifiers.len()),
                (Qos::ExactlyOnce, 4)
            );
            let own = merged.of_own().expect("some are without No Local");
            let mut identifiers = own.identifiers.to_vec();
            identifiers.sort_unstable();
            assert_eq!(
                (own.qos, identifiers),
                (Qos::AtLeastOnce, vec![2, 3]),
                "{order:?}"
            );
        }
        assert!(merged(&[0, 3]).of_own().is_none() && !merged(&[1, 2]).differs_for_own());
        assert_eq!(
            merged(&[1, 2]).of_own().map(|own| own.qos),
            Some(Qos::AtLeastOnce)
        );
    }

    #[test]
    fn mqtt_4_8_2_1_shares_have_a_name_and_a_filter() {
        let shared = RequestedFilter::new("$share/workers/jobs/#").expect("valid");
        let share = shared.share.expect("shared");
        assert_eq!(
            (share.name.as_str(), share.filter.as_str()),
            ("workers", "jobs/#")
        );
        for text in [
            "$share",
            "$share/",
            "$share/name",
            "$share/name/",
            "$share//x",
            "$share/a+/x",
        ] {
            assert!(RequestedFilter::new(text).is_err(), "{text}");
        }
        assert_eq!(
            RequestedFilter::new("$shared/x").expect("valid").share,
            None
        );
    }
}
