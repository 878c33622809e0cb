//! The retained messages of a new subscription, between SUBSCRIBE and SUBACK.

use std::slice;
use std::sync::Arc;

use gatepost_message::{Publication, TopicFilter};

use crate::filter::{RequestedFilter, SubscribeOptions};
use crate::retained::RetainedSearch;

/// The retained messages of a new subscription, to be passed to
/// [`deliver_retained`](crate::Attachment::deliver_retained).
pub struct RetainedOfSubscription {
    pub(crate) filter: TopicFilter,
    pub(crate) options: SubscribeOptions,
    pub(crate) messages: Vec<Arc<Publication>>,
    topics_compared: usize,
}

impl RetainedOfSubscription {
    pub(crate) fn new(
        requested: &RequestedFilter,
        options: SubscribeOptions,
        search: RetainedSearch,
    ) -> Self {
        Self {
            filter: requested.text.clone(),
            options,
            messages: search.found,
            topics_compared: search.topics,
        }
    }

    /// The topics that were compared with the filter to find the messages, which is the cost of the
    /// search.
    pub const fn topics_compared(&self) -> usize {
        self.topics_compared
    }

    /// Whether no topic of the filter retains a message.
    pub const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The number of messages.
    pub const fn len(&self) -> usize {
        self.messages.len()
    }

    /// The messages.
    pub fn iter(&self) -> slice::Iter<'_, Arc<Publication>> {
        self.messages.iter()
    }

    /// Removes the messages that are not wanted, and returns them.
    pub(crate) fn split_off(
        &mut self,
        is_wanted: impl Fn(&Publication) -> bool,
    ) -> Vec<Arc<Publication>> {
        let messages = std::mem::take(&mut self.messages);
        let (kept, removed) = messages.into_iter().partition(|one| is_wanted(one));
        self.messages = kept;
        removed
    }
}

impl<'a> IntoIterator for &'a RetainedOfSubscription {
    type Item = &'a Arc<Publication>;
    type IntoIter = slice::Iter<'a, Arc<Publication>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
