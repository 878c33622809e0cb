//! The limits that a scan reached, and the rules that report them.
//!
//! A limit bounds the cost of a message. A sender must gain nothing from it: each limit that ended
//! something early is a hit of its own, so it appears among the hits, and rule files can score it.

use crate::language::RuleDefinitions;

/// SpamAssassin's name for a scan that ran out of time.
const TIME: (&str, &str) = (
    "TIME_LIMIT_EXCEEDED",
    "The time for one message was used up before all rules had run",
);
/// The name of the rule for all other limits.
const REST: (&str, &str) = (
    "GATEPOST_GIVEN_UP",
    "Rules ran into their limits, or part of the message was not read",
);

/// The part of a scan that a limit ended early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// The time limit of the message was reached.
    pub time: bool,
    /// A rule exceeded its limit of steps.
    pub steps: bool,
    /// Part of the message exceeds a size limit, and was not read.
    pub size: bool,
}

impl GivenUp {
    /// Whether any limit was reached.
    pub const fn is_any(self) -> bool {
        self.time || self.steps || self.size
    }

    /// The names of the rules that report the limits.
    pub(crate) fn rules(self) -> impl Iterator<Item = &'static str> {
        let time = self.time.then_some(TIME.0);
        let rest = (self.steps || self.size).then_some(REST.0);
        time.into_iter().chain(rest)
    }
}

/// Whether this rule reports a limit.
pub(crate) fn has_rule(name: &str) -> bool {
    [TIME, REST].iter().any(|(known, _)| *known == name)
}

/// Adds these rules to those of the folders, which may already have scores or descriptions for
/// them.
pub(crate) fn define(definitions: &mut RuleDefinitions, score: f64) {
    for (name, description) in [TIME, REST] {
        let rule = definitions.rule(name);
        rule.scores.get_or_insert([score; 4]);
        rule.description.get_or_insert_with(|| description.into());
    }
}

/// A description for a reply or a log line.
impl std::fmt::Display for GivenUp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let causes = [
            (self.time, "time"),
            (self.steps, "steps"),
            (self.size, "size"),
        ];
        let causes = causes.iter().filter(|(is_cause, _)| *is_cause);
        let causes: Vec<&str> = causes.map(|(_, name)| *name).collect();
        formatter.write_str(&causes.join(", "))
    }
}
