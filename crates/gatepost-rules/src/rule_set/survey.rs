//! Lists of a rule set for operators: all rules, and the slowest ones.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::RuleId;
use crate::RuleSet;
use crate::eval::ScannedMail;
use crate::scan::LineRules;

/// A rule that runs, as needed for the comparison of two sets.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleSummary {
    /// Its name.
    pub name: Arc<str>,
    /// The score of a hit.
    pub score: f64,
    /// The text of reports, if there is one.
    pub description: Option<Arc<str>>,
    /// A hash of its test.
    pub definition: u64,
}

/// The time of one rule over some mails.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleTime {
    /// Its name.
    pub name: Arc<str>,
    /// The total time.
    pub time: Duration,
}

impl RuleSet {
    /// The rules that run and have a score, in no particular order.
    pub fn summaries(&self) -> Vec<RuleSummary> {
        let facts = self.compiled().facts.iter();
        let facts = facts.filter(|facts| !facts.is_sub_rule);
        facts
            .map(|facts| RuleSummary {
                name: Arc::clone(&facts.name),
                score: facts.score,
                description: self
                    .definitions()
                    .find(&facts.name)
                    .and_then(|rule| rule.description.clone()),
                definition: self.fingerprint(&facts.name),
            })
            .collect()
    }

    fn fingerprint(&self, name: &str) -> u64 {
        let mut hasher = HashWriter(DefaultHasher::new());
        if let Some(rule) = self.definitions().find(name) {
            // Writing to a hasher cannot fail.
            let _ = write!(hasher, "{:?} {:?} {}", rule.test, rule.flags, rule.priority);
        }
        hasher.0.finish()
    }

    /// The slowest rules over these mails, slowest first: each rule's own pattern or function, run
    /// over its entire view without a prefilter. A scan takes less time, but a hostile mail could
    /// cause these times. Stops after `time`.
    pub fn slowest(
        &self,
        mails: &[impl AsRef<[u8]>],
        count: usize,
        time: Duration,
    ) -> Vec<RuleTime> {
        let mut survey = RuleTimings {
            spent: HashMap::new(),
            end: Instant::now() + time,
        };
        for mail in mails {
            let mail = ScannedMail::parse(mail.as_ref());
            survey.one(self, &mail);
        }
        let facts = &self.compiled().facts;
        let mut times: Vec<RuleTime> = survey
            .spent
            .into_iter()
            .filter_map(|(rule, time)| {
                let name = Arc::clone(&facts.get(rule as usize)?.name);
                Some(RuleTime { name, time })
            })
            .collect();
        times.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
        times.truncate(count);
        times
    }
}

struct HashWriter(DefaultHasher);

impl std::fmt::Write for HashWriter {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        text.hash(&mut self.0);
        Ok(())
    }
}

struct RuleTimings {
    spent: HashMap<RuleId, Duration>,
    end: Instant,
}

impl RuleTimings {
    fn one(&mut self, rules: &RuleSet, mail: &ScannedMail<'_>) {
        let program = &rules.compiled().program;
        let (body, raw, uris) = (mail.body(), mail.rawbody(), mail.uris());
        let full = mail.full();
        self.lines(&program.body, body.text(), body.ends());
        self.lines(&program.uris, uris.text(), uris.ends());
        self.lines(&program.raw_body, raw.text(), raw.ends());
        self.lines(&program.full, full, &[full.len()]);
        for eval in program.header_evals.iter().chain(&program.other_evals) {
            self.timed(eval.rule, || {
                let _ = eval.evaluation.run(mail);
            });
        }
    }

    fn lines(&mut self, rules: &LineRules, text: &[u8], ends: &[usize]) {
        for rule in rules.rules() {
            // Compiled on first use; that time does not count.
            if rule.pattern.compile().is_err() {
                continue;
            }
            self.timed(rule.rule, || {
                let mut start = 0;
                for &end in ends {
                    let line = text.get(start..end).unwrap_or_default();
                    start = end;
                    let _ = rule.pattern.find(line, 0, |_| true);
                }
            });
        }
    }

    fn timed(&mut self, rule: RuleId, run: impl FnOnce()) {
        let start = Instant::now();
        if start >= self.end {
            return;
        }
        run();
        *self.spent.entry(rule).or_default() += start.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RulesSettings;

    #[test]
    fn a_rule_is_other_when_its_test_or_score_is() {
        let of = |text: &str| {
            let (set, _) = RuleSet::from_text("t.cf", text.as_bytes(), &RulesSettings::default());
            set.summaries()
        };
        let one = of("body A /x/\nscore A 1\n");
        assert_eq!(one, of("\n\nbody A /x/\nscore A 1\n"));
        assert_ne!(one, of("body A /y/\nscore A 1\n"));
        assert_ne!(one, of("body A /x/\nscore A 2\n"));
    }

    #[test]
    fn the_slowest_rules_are_named() {
        let text = b"body A /x/\nscore A 1\nbody B /(?:a+)+b/\nscore B 1\n";
        let (set, _) = RuleSet::from_text("t.cf", text, &RulesSettings::default());
        let mail = format!("Subject: x\r\n\r\n{}\r\n", "a".repeat(500));
        let times = set.slowest(&[mail], 10, Duration::from_secs(5));
        let mut names: Vec<_> = times.iter().map(|time| &*time.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["A", "B"]);
    }
}
