//! The tree of filters with wildcards, by level.
//!
//! A node stands for several levels if no other filter branches off between them, so a filter takes
//! at most two nodes, however many levels it has: a client could otherwise fill the memory with
//! short levels.

use std::mem;

use hashbrown::HashMap;

use super::list::Subscriptions;
use crate::subscription::Subscription;

/// The filter does not begin with the levels of a node's chain.
struct OtherLevels;

/// A level of the tree of wildcard filters.
#[derive(Default)]
pub(super) struct FilterNode {
    /// Levels between the one by which the parent finds this node and the node itself; `None` for
    /// none. They contain no `#`.
    chain: Option<Box<str>>,
    children: HashMap<Box<str>, Box<FilterNode>>,
    plus: Option<Box<FilterNode>>,
    /// Filters that end at this level.
    here: Subscriptions,
    /// Filters that end in `#` below this level.
    below: Subscriptions,
}

impl FilterNode {
    /// A node at the end of the levels of `filter` before a final `#`.
    fn at_end_of(filter: Option<&str>) -> Self {
        let chain = match filter {
            None | Some("#") => None,
            Some(filter) => Some(filter.strip_suffix("/#").unwrap_or(filter).into()),
        };
        Self {
            chain,
            ..Self::default()
        }
    }

    /// The list of the filter of which `rest` is left; created if it is missing.
    pub(super) fn list_mut(&mut self, rest: Option<&str>) -> &mut Subscriptions {
        let Some(rest) = rest else {
            return &mut self.here;
        };
        if rest == "#" {
            return &mut self.below;
        }
        let (level, rest) = split_level(rest);
        let new = || Box::new(Self::at_end_of(rest));
        let child = if level == "+" {
            self.plus.get_or_insert_with(new)
        } else {
            self.children.entry(level.into()).or_insert_with(new)
        };
        let rest = child.split_chain(rest);
        child.list_mut(rest)
    }

    /// Divides the chain where `rest` leaves it, so that the node stands for the levels that both
    /// have; returns what is left of `rest` after them.
    fn split_chain<'t>(&mut self, rest: Option<&'t str>) -> Option<&'t str> {
        let Some(chain) = self.chain.take() else {
            return rest;
        };
        let (mut left, mut of_chain) = (rest, Some(&*chain));
        let mut common = 0;
        while let (Some(filter), Some(levels)) = (left, of_chain) {
            let ((level, after), (other, after_chain)) = (split_level(filter), split_level(levels));
            if level != other {
                break;
            }
            common = chain.len() - after_chain.map_or(0, str::len);
            (left, of_chain) = (after, after_chain);
        }
        let Some(lower) = of_chain else {
            self.chain = Some(chain);
            return left;
        };
        let (level, after) = split_level(lower);
        let upper = chain[..common].strip_suffix('/');
        let mut node = Self {
            chain: upper.map(Into::into),
            ..Self::default()
        };
        mem::swap(self, &mut node);
        node.chain = after.map(Into::into);
        if level == "+" {
            self.plus = Some(Box::new(node));
        } else {
            self.children.insert(level.into(), Box::new(node));
        }
        left
    }

    /// The rest of a filter after the levels of the chain.
    fn after_chain<'t>(&self, rest: Option<&'t str>) -> Result<Option<&'t str>, OtherLevels> {
        let Some(chain) = &self.chain else {
            return Ok(rest);
        };
        let after = rest.and_then(|rest| rest.strip_prefix(&**chain));
        match after {
            Some("") => Ok(None),
            Some(after) => after.strip_prefix('/').map(Some).ok_or(OtherLevels),
            None => Err(OtherLevels),
        }
    }

    /// The list of the filter of which `rest` is left, if there is one.
    pub(super) fn list(&self, rest: Option<&str>) -> Option<&Subscriptions> {
        let Some(rest) = rest else {
            return Some(&self.here);
        };
        if rest == "#" {
            return Some(&self.below);
        }
        let (level, rest) = split_level(rest);
        let child = if level == "+" {
            self.plus.as_ref()?
        } else {
            self.children.get(level)?
        };
        child.list(child.after_chain(rest).ok()?)
    }

    /// Removes the empty nodes of the filter of which `rest` is left, and joins those that no
    /// longer need to be apart.
    pub(super) fn prune(&mut self, rest: Option<&str>) {
        let Some((level, rest)) = rest.filter(|rest| *rest != "#").map(split_level) else {
            return;
        };
        let child = if level == "+" {
            self.plus.as_mut()
        } else {
            self.children.get_mut(level)
        };
        let Some(child) = child else {
            return;
        };
        let Ok(rest) = child.after_chain(rest) else {
            return;
        };
        child.prune(rest);
        child.join_only_child();
        if !child.is_empty() {
            return;
        }
        if level == "+" {
            self.plus = None;
        } else {
            self.children.remove(level);
            if self.children.is_empty() {
                self.children = HashMap::default();
            }
        }
    }

    /// Takes the place of a single child if no filter ends here.
    fn join_only_child(&mut self) {
        let is_only = self.children.len() + usize::from(self.plus.is_some()) == 1;
        if !is_only || !self.here.is_none() || !self.below.is_none() {
            return;
        }
        let taken = match self.plus.take() {
            Some(child) => Some(("+".into(), child)),
            None => self.children.drain().next(),
        };
        let Some((level, child)) = taken else {
            return;
        };
        let mut levels: Vec<&str> = self.chain.iter().map(|chain| &**chain).collect();
        levels.push(&level);
        levels.extend(child.chain.as_deref());
        let chain: Box<str> = levels.join("/").into();
        *self = *child;
        self.chain = Some(chain);
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
            child.visit_beyond_chain(rest, visit);
        }
        if let Some(plus) = &self.plus {
            plus.visit_beyond_chain(rest, visit);
        }
    }

    /// As `visit`, if the topic has the levels of the chain.
    fn visit_beyond_chain(&self, mut rest: Option<&str>, visit: &mut dyn FnMut(&Subscription)) {
        let mut chain = self.chain.as_deref();
        while let Some(levels) = chain {
            let Some(topic) = rest else {
                return;
            };
            let ((wanted, after_chain), (level, after)) = (split_level(levels), split_level(topic));
            if wanted != "+" && wanted != level {
                return;
            }
            (chain, rest) = (after_chain, after);
        }
        self.visit(rest, visit);
    }

    /// As `visit`, for a topic of the server's own: leading wildcards do not match
    /// \[MQTT-4.7.2-1\].
    pub(super) fn visit_internal(&self, topic: &str, visit: &mut dyn FnMut(&Subscription)) {
        let (level, rest) = split_level(topic);
        if let Some(child) = self.children.get(level) {
            child.visit_beyond_chain(rest, visit);
        }
    }

    /// The nodes of this part of the tree.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let children = self.children.values().chain(&self.plus);
        1 + children.map(|child| child.len()).sum::<usize>()
    }
}

pub(super) fn split_level(text: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'/', text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
