//! Subscriptions of a session: within the limits, in the index, and with the retained messages of
//! their topics.

use gatepost_message::TopicFilter;

use crate::attachment::{Attachment, SubscribeError};
use crate::filter::{RequestedFilter, RetainHandling, SubscribeOptions};
use crate::limits::Limit;
use crate::retained::RetainedSearch;
use crate::retained_of_subscription::RetainedOfSubscription;
use crate::subscription::{GroupMember, Subscription};

impl Attachment {
    /// Adds a subscription, or replaces the one of the same filter \[MQTT-3.8.4-3\]. Returns the
    /// retained messages of its topics, which must be passed to [`Attachment::deliver_retained`]
    /// after the SUBACK has been sent.
    pub fn subscribe(
        &self,
        requested: &RequestedFilter,
        options: &SubscribeOptions,
    ) -> Result<RetainedOfSubscription, SubscribeError> {
        let options = *options;
        let search = self.subscribe_to(requested, options)?;
        Ok(RetainedOfSubscription::new(requested, options, search))
    }

    fn subscribe_to(
        &self,
        requested: &RequestedFilter,
        options: SubscribeOptions,
    ) -> Result<RetainedSearch, SubscribeError> {
        if !self.is_current() {
            return Ok(RetainedSearch::default());
        }
        let is_new = self.add_filter(&requested.text)?;
        self.session().store_subscription(&requested.text, options);
        let member = GroupMember::new(self.session().clone(), options);
        let index = &self.shared().index;
        if let Some(share) = &requested.share {
            index.join(&share.filter, &share.name, member);
            // Section 4.8.2: shared subscriptions get no retained messages.
            return Ok(RetainedSearch::default());
        }
        let subscription = Subscription::Session(member);
        if is_new {
            index.insert(&requested.text, subscription);
        } else {
            index.replace(&requested.text, subscription, &|other| {
                matches!(other, Subscription::Session(member) if member.is(self.session()))
            });
        }
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DoNotSend => false,
        };
        if !wants_retained {
            return Ok(RetainedSearch::default());
        }
        let retained = self.shared().retained_matching(&requested.text);
        retained.map_err(|_| {
            self.shared()
                .reached(Limit::Memory, self.session().client_id());
            if is_new {
                self.unsubscribe(&requested.text);
            }
            SubscribeError::OutOfMemory
        })
    }

    /// Adds a filter to those of the session, within the limits; returns whether it is new.
    fn add_filter(&self, filter: &TopicFilter) -> Result<bool, SubscribeError> {
        let (shared, session) = (self.shared(), self.session());
        let settings = &shared.settings;
        let refused = |limit, error| {
            shared.reached(limit, session.client_id());
            Err(error)
        };
        if !shared.is_within_limits(filter.as_str()) {
            return refused(Limit::Topic, SubscribeError::BeyondLimits);
        }
        let (count_max, bytes_max) = (
            settings.subscriptions_per_session_max,
            settings.subscription_bytes_per_session_max.as_usize(),
        );
        let mut filters = session.filters.lock();
        if shared.limits.is_out_of_memory() && !filters.contains(filter) {
            drop(filters);
            return refused(Limit::Memory, SubscribeError::OutOfMemory);
        }
        let inserted = filters.insert(filter, count_max, bytes_max);
        drop(filters);
        match inserted {
            Some(is_new) => Ok(is_new),
            None => refused(Limit::Subscriptions, SubscribeError::TooMany),
        }
    }
}
