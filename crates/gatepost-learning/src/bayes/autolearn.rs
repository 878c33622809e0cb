//! Decides which scanned messages are learned automatically.
//!
//! A message is learned if its score is clear without the contribution of Bayes, so that Bayes does
//! not confirm itself. Rules count with their scores in the score set without Bayes, and a message
//! is learned as spam only if both header rules and body rules contributed points.

use super::record::Class;
use super::settings::AutolearnSettings;

/// The points that header rules, and body rules, must each contribute before a message is learned
/// as spam.
const PLACE_POINTS_MIN: f64 = 3.0;
/// The points by which Bayes and other learners may at most contradict the class.
const LEARNED_POINTS_MAX: f64 = 1.0;

/// The part of a message that a rule examines, as far as automatic learning distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// `header` rules and evals.
    Head,
    /// `body`, `rawbody` and `uri` rules and evals.
    Body,
    /// `meta` rules, with the number of their rules that examine the head and the body.
    Meta {
        /// Rules that examine the head.
        head: usize,
        /// Rules that examine the body.
        body: usize,
    },
    /// `full` rules and all others.
    Other,
}

/// The flags of `tflags` that matter for automatic learning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleFlags {
    /// `noautolearn` or `userconf`: the rule is ignored.
    pub left_out: bool,
    /// `learn`: the rule is the result of a learner itself.
    pub learner: bool,
    /// `autolearn_force`: the rule suffices without points from the other part.
    pub force: bool,
    /// `autolearn_header` or `autolearn_body`: the rule counts for that part.
    pub counts_as: Option<RulePlace>,
}

/// One rule that hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RulePoints {
    /// The part that it examines.
    pub place: RulePlace,
    /// Its flags.
    pub flags: RuleFlags,
    /// Its score in the score set of this scan.
    pub score: f64,
    /// Its score in the score set without Bayes.
    pub score_without_bayes: f64,
}

impl RulePoints {
    /// Whether it alone is certain enough to learn from.
    pub fn forces(&self) -> bool {
        self.flags.force && !self.flags.left_out && !self.flags.learner
    }
}

/// The points of all rules that hit, by the part of the message that they examine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PointTotals {
    total: f64,
    head: f64,
    body: f64,
    learned: f64,
    forced: bool,
}

impl PointTotals {
    /// Adds a rule that hit, with its points for each of its hits.
    pub fn add(&mut self, rule: &RulePoints, times: usize) {
        if rule.flags.left_out {
            return;
        }
        if rule.flags.learner {
            self.learned += rule.score * times as f64;
            return;
        }
        self.forced |= rule.flags.force;
        let (score, times) = (rule.score_without_bayes, times as f64);
        match rule.flags.counts_as.unwrap_or(rule.place) {
            RulePlace::Head => self.head += score * times,
            RulePlace::Body => self.body += score * times,
            RulePlace::Meta { head, body } if head + body > 0 => {
                let all = (head + body) as f64;
                self.head += thousandths(score * head as f64 / all) * times;
                self.body += thousandths(score * body as f64 / all) * times;
            }
            RulePlace::Meta { .. } | RulePlace::Other => {}
        }
        self.total += score * times;
    }

    /// The sum without learners, rounded to a thousandth; AWL and TxRep average it too.
    pub fn total(&self) -> f64 {
        thousandths(self.total)
    }
}

fn thousandths(score: f64) -> f64 {
    (score * 1000.0).round() / 1000.0
}

/// The value of `autolearn=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autolearn {
    /// The message was learned as this class.
    Learned(Class),
    /// It is not clear enough.
    No,
    /// Automatic learning is disabled.
    Disabled,
    /// There is no learner, or the message was learned before.
    #[default]
    Unavailable,
    /// The message could not be learned.
    Failed,
}

impl Autolearn {
    /// The value in `X-Spam-Status`.
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
    /// The class as which a scanned message is learned automatically; `None` if it is not learned.
    /// `probability` is the result of Bayes.
    pub fn decide(
        &self,
        points: &PointTotals,
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

    fn points(rules: &[(RulePlace, f64)]) -> PointTotals {
        let mut points = PointTotals::default();
        for (place, score) in rules {
            points.add(
                &RulePoints {
                    place: *place,
                    flags: RuleFlags::default(),
                    score: 0.0,
                    score_without_bayes: *score,
                },
                1,
            );
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
        let mut none = PointTotals::default();
        assert_eq!(SETTINGS.decide(&none, false, None), Some(Class::Ham));
        none.add(
            &RulePoints {
                place: RulePlace::Body,
                flags: RuleFlags {
                    learner: true,
                    ..RuleFlags::default()
                },
                score: 3.5,
                score_without_bayes: 0.0,
            },
            1,
        );
        assert_eq!(SETTINGS.decide(&none, false, None), None);
    }

    #[test]
    fn on_error_learns_only_misclassified_messages() {
        let settings = AutolearnSettings {
            on_error: true,
            ..SETTINGS
        };
        let none = PointTotals::default();
        assert_eq!(settings.decide(&none, false, Some(0.001)), None);
        assert_eq!(settings.decide(&none, false, Some(0.3)), Some(Class::Ham));
    }
}
