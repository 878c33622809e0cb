//! The tree of filters with wildcards, by level.

use hashbrown::HashMap;

use super::list::Subscriptions;
use crate::subscription::Subscription;

/// A level of the tree of wildcard filters.
#[derive(Default)]
pub(super) struct FilterNode {
    children: HashMap<Box<str>, FilterNode>,
    plus: Option<Box<FilterNode>>,
    /// Filters that end at this level.
    here: Subscriptions,
    /// Filters that end in `#` below this level.
    below: Subscriptions,
}

impl FilterNode {
    /// The list of the filter whose levels these are; created if it is missing.
    pub(super) fn list_mut<'t>(
        &mut self,
        mut levels: impl Iterator<Item = &'t str>,
    ) -> &mut Subscriptions {
        match levels.next() {
            None => &mut self.here,
            Some("#") => &mut self.below,
            Some("+") => self.plus.get_or_insert_default().list_mut(levels),
            Some(name) => self
                .children
                .entry(name.into())
                .or_default()
                .list_mut(levels),
        }
    }

    /// The list of the filter whose levels these are, if there is one.
    pub(super) fn list<'t>(
        &self,
        mut levels: impl Iterator<Item = &'t str>,
    ) -> Option<&Subscriptions> {
        match levels.next() {
            None => Some(&self.here),
            Some("#") => Some(&self.below),
            Some("+") => self.plus.as_ref()?.list(levels),
            Some(name) => self.children.get(name)?.list(levels),
        }
    }

    /// Removes the empty nodes of these levels.
    pub(super) fn prune<'t>(&mut self, mut levels: impl Iterator<Item = &'t str>) {
        match levels.next() {
            None | Some("#") => {}
            Some("+") => {
                if let Some(plus) = &mut self.plus {
                    plus.prune(levels);
                    if plus.is_empty() {
                        self.plus = None;
                    }
                }
            }
            Some(name) => {
                if let Some(child) = self.children.get_mut(name) {
                    child.prune(levels);
                    if child.is_empty() {
                        self.children.remove(name);
                    }
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.plus.is_none()
            && self.here.is_none()
            && self.below.is_none()
    }

    /// Visits every subscription whose filter matches the topic of which `rest` is left.
    pub(super) fn visit(&self, rest: Option<&str>, visit: &mut dyn FnMut(&Subscription)) {
        // "sport/#" matches "sport" too (section 4.7.1.2).
        self.below.as_slice().iter().for_each(&mut *visit);
        let Some(rest) = rest else {
            self.here.as_slice().iter().for_each(visit);
            return;
        };
        let (level, rest) = split_level(rest);
        if let Some(child) = self.children.get(level) {
            child.visit(rest, visit);
        }
        if let Some(plus) = &self.plus {
            plus.visit(rest, visit);
        }
    }

    /// As `visit`, for a topic of the server's own: leading wildcards do not match
    /// \[MQTT-4.7.2-1\].
    pub(super) fn visit_internal(&self, topic: &str, visit: &mut dyn FnMut(&Subscription)) {
        let (level, rest) = split_level(topic);
        if let Some(child) = self.children.get(level) {
            child.visit(rest, visit);
        }
    }
}

pub(super) fn split_level(text: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'/', text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
