//! Verdicts of procedures on a message.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::Edit;

/// The action for a message. Ordered by severity: the chain of a scope ends at the first action
/// other than accept or tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Action {
    /// Delivered unchanged.
    #[default]
    Accept,
    /// Delivered with tags that name the findings.
    Tag,
    /// Kept in the quarantine for a person to release or delete; the sender sees success.
    Quarantine,
    /// Not delivered; the sender sees success.
    Drop,
    /// Not delivered; the reply states the reason.
    Reject,
    /// Not accepted now; the sender may try again.
    Defer,
}

impl Action {
    /// Every action, from mild to severe.
    pub const ALL: [Self; 6] = [
        Self::Accept,
        Self::Tag,
        Self::Quarantine,
        Self::Drop,
        Self::Reject,
        Self::Defer,
    ];

    /// The name in the configuration, logs, metrics and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Tag => "tag",
            Self::Quarantine => "quarantine",
            Self::Drop => "drop",
            Self::Reject => "reject",
            Self::Defer => "defer",
        }
    }

    /// Whether the message is delivered to subscribers.
    pub const fn delivers(self) -> bool {
        matches!(self, Self::Accept | Self::Tag)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No action has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no verdict is named '{0}'; the verdicts are accept, tag, quarantine, drop, reject and \
    defer"
)]
pub struct UnknownAction(pub String);

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|action| action.name() == name)
            .ok_or_else(|| UnknownAction(name.to_owned()))
    }
}

/// The sum of the scores of all rules hit, and the sum from which a message is spam.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The sum.
    pub value: f64,
    /// The threshold.
    pub required: f64,
}

impl Score {
    /// Whether the sum reaches the threshold.
    pub fn is_spam(self) -> bool {
        self.value >= self.required
    }
}

impl fmt::Display for Score {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.1}/{:.1}", self.value, self.required)
    }
}

/// One rule that matched.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleHit {
    /// The rule's name.
    pub name: Cow<'static, str>,
    /// The score that it added.
    pub score: f64,
}

/// The verdict of a procedure, or of a whole scope.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// The action for the message.
    pub action: Action,
    /// The score of the rule engine, if it ran.
    pub score: Option<Score>,
    /// The rules that matched, in the order in which reports list them.
    pub hits: Vec<RuleHit>,
    /// The reason for the sender and for the log, one line; empty if there is none.
    pub reason: String,
    /// The path of the procedure that decided; empty if none did.
    pub procedure: String,
    /// Name and value of the tags to add: header fields of mail, user properties of a publication.
    pub tags: Vec<(String, String)>,
    /// The results of sender authentication, for `Authentication-Results`; empty if no
    /// authentication was performed.
    pub authentication: Vec<Authentication>,
    /// The requested changes of the message, in order; they apply with every verdict that delivers.
    /// [`edit::apply`](crate::edit::apply) performs them.
    pub edits: Vec<Edit>,
}

/// The result of one method of authentication (RFC 8601, section 2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// `spf`, `dkim`, `dmarc`, ….
    pub method: &'static str,
    /// `pass`, `fail`, `none`, `temperror`, …, as the method's own specification defines them.
    pub result: &'static str,
    /// The identity: type and property, such as `smtp.mailfrom`, with the value.
    pub properties: Vec<(&'static str, String)>,
}

impl Verdict {
    /// Accepted, without a reason.
    pub fn accept() -> Self {
        Self::default()
    }

    /// A verdict with this action and this reason.
    pub fn new(action: Action, reason: impl Into<String>) -> Self {
        Self {
            action,
            reason: reason.into(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_return_their_action() {
        for action in Action::ALL {
            assert_eq!(action.name().parse(), Ok(action));
        }
        assert!("perhaps".parse::<Action>().is_err());
    }

    #[test]
    fn a_score_at_the_threshold_is_spam() {
        let score = Score {
            value: 5.0,
            required: 5.0,
        };
        assert!(score.is_spam());
        assert_eq!(score.to_string(), "5.0/5.0");
    }
}
