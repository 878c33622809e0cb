//! Which judged messages are learned by themselves.
//!
//! A message is learned if its score is clear without Bayes' own part in it, so that Bayes does not
//! only confirm itself: rules count with their scores of the set without Bayes, and to be learned
//! as spam, both the head and the body must have given reasons.

use super::record::Class;
use super::settings::AutolearnSettings;

/// Points that the head, and that the body, must have given to learn spam.
const PLACE_POINTS_MIN: f64 = 3.0;
/// Bayes and other learners must not have said the opposite by more points than this.
const LEARNED_POINTS_MAX: f64 = 1.0;

/// What of a message a rule looks at, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// `header` rules and evals.
    Head,
    /// `body`, `rawbody` and `uri` rules and evals.
    Body,
    /// `meta` rules, with how many of the rules they name look at the head and at the body.
    Meta {
        /// At the head.
        head: usize,
        /// At the body.
        body: usize,
    },
    /// `full` rules and all others.
    Other,
}

/// The words of `tflags` that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleFlags {
    /// `noautolearn` or `userconf`: it does not count.
    pub left_out: bool,
    /// `learn`: it is the word of a learner itself.
    pub learner: bool,
    /// `autolearn_force`: it is certain enough alone.
    pub force: bool,
    /// `autolearn_header` or `autolearn_body`: it counts as that.
    pub counts_as: Option<RulePlace>,
}

/// One rule that hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointsOf {
    /// What it looks at.
    pub place: RulePlace,
    /// Its flags.
    pub flags: RuleFlags,
    /// Its score in the score set of this scan.
    pub score: f64,
    /// Its score in the score set without Bayes.
    pub score_without_bayes: f64,
}

impl PointsOf {
    /// Whether it alone is certain enough to learn from.
    pub fn forces(&self) -> bool {
        self.flags.force && !self.flags.left_out && !self.flags.learner
    }
}

/// The points of all rules that hit, by where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Points {
    total: f64,
    head: f64,
    body: f64,
    learned: f64,
    forced: bool,
}

impl Points {
    /// Counts a rule that hit.
    pub fn add(&mut self, rule: &PointsOf) {
        if rule.flags.left_out {
            return;
        }
        if rule.flags.learner {
            self.learned += rule.score;
            return;
        }
        self.forced |= rule.flags.force;
        let score = rule.score_without_bayes;
        match rule.flags.counts_as.unwrap_or(rule.place) {
            RulePlace::Head => self.head += score,
            RulePlace::Body => self.body += score,
            RulePlace::Meta { head, body } if head + body > 0 => {
                let all = (head + body) as f64;
                self.head += thousandths(score * head as f64 / all);
                self.body += thousandths(score * body as f64 / all);
            }
            RulePlace::Meta { .. } | RulePlace::Other => {}
        }
        self.total += score;
    }

    /// The sum without learners, to a thousandth; it is also what AWL and TxRep average.
    pub fn total(&self) -> f64 {
        thousandths(self.total)
    }
}

fn thousandths(score: f64) -> f64 {
    (score * 1000.0).round() / 1000.0
}

/// What `autolearn=` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autolearn {
    /// It was learned so.
    Learned(Class),
    /// It is not clear enough.
    No,
    /// Learning by itself is switched off.
    Disabled,
    /// There is no learner, or it knew the message already.
    #[default]
    Unavailable,
    /// It could not be learned.
    Failed,
}

impl Autolearn {
    /// The word in `X-Spam-Status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Learned(Class::Spam) => "spam",
            Self::Learned(Class::Ham) => "ham",
            Self::No => "no",
            Self::Disabled => "disabled",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

impl AutolearnSettings {
    /// As what a judged message is to be learned, if at all. `probability` is Bayes' own word.
    pub fn decide(
        &self,
        points: &Points,
        is_spam: bool,
        probability: Option<f64>,
    ) -> Option<Class> {
        let class = if points.total() < self.ham_below {
            Class::Ham
        } else if points.total() >= self.spam_from {
            Class::Spam
        } else {
            return None;
        };
        let agreed = match class {
            Class::Spam => {
                let by_place = points.head.min(points.body) >= PLACE_POINTS_MIN;
                is_spam && (points.forced || by_place) && points.learned >= -LEARNED_POINTS_MAX
            }
            Class::Ham => !is_spam && points.learned <= LEARNED_POINTS_MAX,
        };
        let known = self.on_error
            && probability.is_some_and(|probability| match class {
                Class::Spam => probability > 0.99,
                Class::Ham => probability <= 0.01,
            });
        (agreed && !known).then_some(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: AutolearnSettings = AutolearnSettings {
        enabled: true,
        ham_below: 0.1,
        spam_from: 12.0,
        on_error: false,
    };

    fn points(rules: &[(RulePlace, f64)]) -> Points {
        let mut points = Points::default();
        for (place, score) in rules {
            points.add(&PointsOf {
                place: *place,
                flags: RuleFlags::default(),
                score: 0.0,
                score_without_bayes: *score,
            });
        }
        points
    }

    #[test]
    fn spam_needs_reasons_in_head_and_body() {
        let both = points(&[(RulePlace::Head, 9.0), (RulePlace::Body, 3.0)]);
        assert_eq!(SETTINGS.decide(&both, true, None), Some(Class::Spam));
        assert_eq!(SETTINGS.decide(&both, false, None), None);
        let head = points(&[(RulePlace::Head, 20.0)]);
        assert_eq!(SETTINGS.decide(&head, true, None), None);
        let meta = points(&[(RulePlace::Meta { head: 1, body: 1 }, 12.0)]);
        assert_eq!(SETTINGS.decide(&meta, true, None), Some(Class::Spam));
    }

    #[test]
    fn ham_is_learned_below_the_threshold_unless_bayes_disagrees() {
        let mut none = Points::default();
        assert_eq!(SETTINGS.decide(&none, false, None), Some(Class::Ham));
        none.add(&PointsOf {
            place: RulePlace::Body,
            flags: RuleFlags {
                learner: true,
                ..RuleFlags::default()
            },
            score: 3.5,
            score_without_bayes: 0.0,
        });
        assert_eq!(SETTINGS.decide(&none, false, None), None);
    }

    #[test]
    fn on_error_learns_only_what_was_not_known() {
        let settings = AutolearnSettings {
            on_error: true,
            ..SETTINGS
        };
        let none = Points::default();
        assert_eq!(settings.decide(&none, false, Some(0.001)), None);
        assert_eq!(settings.decide(&none, false, Some(0.3)), Some(Class::Ham));
    }
}
