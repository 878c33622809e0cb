//! The subscriptions of one filter.

use crate::subscription::Subscription;

/// The subscriptions of one filter. One is by far the most frequent number.
#[derive(Default)]
pub(super) enum Subscriptions {
    #[default]
    None,
    One(Subscription),
    Many(Vec<Subscription>),
}

impl Subscriptions {
    pub(super) fn as_slice(&self) -> &[Subscription] {
        match self {
            Self::None => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    pub(super) fn push(&mut self, subscription: Subscription) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(subscription),
            Self::One(one) => Self::Many(vec![one, subscription]),
            Self::Many(mut many) => {
                many.push(subscription);
                Self::Many(many)
            }
        };
    }

    /// Removes the first that `is_it` names.
    pub(super) fn remove(&mut self, is_it: &dyn Fn(&Subscription) -> bool) -> Option<Subscription> {
        match self {
            Self::One(one) if is_it(one) => match std::mem::take(self) {
                Self::One(one) => Some(one),
                _ => None,
            },
            Self::Many(many) => {
                let at = many.iter().position(is_it)?;
                let removed = many.swap_remove(at);
                if many.is_empty() {
                    *self = Self::None;
                } else if many.capacity() > 16 && many.len() < many.capacity() / 4 {
                    many.shrink_to(many.len() * 2);
                }
                Some(removed)
            }
            _ => None,
        }
    }

    pub(super) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}
