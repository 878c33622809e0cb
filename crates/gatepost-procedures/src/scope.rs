//! The choice of the chain that judges a message: the first scope of the config whose conditions
//! all hold.

use gatepost_message::{Listener, TopicFilter};

use crate::ScopeSettings;
use crate::chain::ProcedureChain;

/// Identifies a scope within one set of procedures. After a reload it may name another one, so it
/// is kept no longer than [`Procedures::generation`](crate::Procedures::generation) stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScopeId(pub(crate) usize);

pub(crate) struct Scope {
    pub(crate) path: String,
    listeners: Vec<Listener>,
    topics: Vec<TopicFilter>,
    /// In lower case.
    recipients: Vec<String>,
    pub(crate) chain: ProcedureChain,
}

impl Scope {
    pub(crate) fn new(settings: &ScopeSettings, chain: ProcedureChain) -> Self {
        let lower = |mask: &String| mask.to_ascii_lowercase();
        Self {
            path: settings.path.clone(),
            listeners: settings.listeners.clone(),
            topics: settings.topics.clone(),
            recipients: settings.recipients.iter().map(lower).collect(),
            chain,
        }
    }

    /// Whether every condition holds. A scope with topics or recipients does not match a message
    /// without any.
    pub(crate) fn fits(
        &self,
        listener: Listener,
        topic: Option<&str>,
        recipients: &[String],
    ) -> bool {
        let listener_fits = self.listeners.is_empty() || self.listeners.contains(&listener);
        let topic_fits = || {
            let matches = |name| self.topics.iter().any(|filter| filter.matches(name));
            self.topics.is_empty() || topic.is_some_and(matches)
        };
        let recipient_fits = || {
            let matches = |to: &String| {
                let to = to.to_ascii_lowercase();
                self.recipients.iter().any(|mask| mask_matches(mask, &to))
            };
            self.recipients.is_empty() || recipients.iter().any(matches)
        };
        listener_fits && topic_fits() && recipient_fits()
    }
}

/// Whether `text` is `mask` with each `*` standing for any run of characters. Each piece is matched
/// at its first position, so the time is bounded by the product of the lengths.
fn mask_matches(mask: &str, text: &str) -> bool {
    let mut pieces = mask.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty(); // no '*' at all
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_match_whole_addresses() {
        for (mask, address, expected) in [
            ("anna@example.org", "anna@example.org", true),
            ("anna@example.org", "hanna@example.org", false),
            ("*@example.org", "anna@example.org", true),
            ("*@example.org", "anna@example.org.evil", false),
            ("alarms+*@*", "alarms+fire@host", true),
            ("alarms+*@*", "alarms@host", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("a**b", "ab", true),
        ] {
            assert_eq!(mask_matches(mask, address), expected, "{mask} {address}");
        }
    }
}
