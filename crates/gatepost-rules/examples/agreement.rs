//! Compares our hits with those SpamAssassin reported, rule by rule.
//!
//! `agreement HITS.jsonl MESSAGES RULES…`: each line of the first file is `{"id": …, "score": …,
//! "hits": {RULE: score}}`; the message is `MESSAGES/ID.txt` (or `MESSAGES/ID`). Prints the goals
//! of the project, then the rules on which the two differ, with example messages.
//! `GATEPOST_ONLY=RULE` lists all messages of one rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gatepost_rules::{RuleProblem, RuleSet, RulesSettings, ScanContext};
use gatepost_settings::Period;
use serde::Deserialize;

/// Scores that differ by more are counted as different.
const SCORE_DIFFERENCE_MAX: f64 = 0.1;
/// Messages named for each rule.
const EXAMPLES_MAX: usize = 3;

#[derive(Deserialize)]
struct Expected {
    id: String,
    score: f64,
    hits: BTreeMap<String, f64>,
}

#[derive(Default)]
struct Difference {
    only_theirs: Vec<String>,
    only_ours: Vec<String>,
}

#[derive(Default)]
struct Tally {
    messages: usize,
    both: usize,
    verdicts_differ: usize,
    scores_differ: usize,
    rules: BTreeMap<String, Difference>,
    time: Duration,
    slowest: Option<(Duration, String)>,
    bytes: usize,
}

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(expected), Some(messages)) = (arguments.next(), arguments.next()) else {
        eprintln!("agreement HITS.jsonl MESSAGES RULES…");
        std::process::exit(64);
    };
    let paths: Vec<PathBuf> = arguments.collect();
    let (rules, problems) = RuleSet::load(
        &paths,
        &RulesSettings {
            max_time: Period::seconds(600),
            ..RulesSettings::default()
        },
    );
    let expected = std::fs::read_to_string(expected).expect("the file of hits can be read");
    let mut tally = Tally::default();
    for line in expected.lines() {
        let expected: Expected = serde_json::from_str(line).expect("a line of hits is JSON");
        tally.compare(&rules, &expected, &messages);
    }
    tally.print(&problems);
}

fn read(messages: &Path, id: &str) -> Vec<u8> {
    let with_ending = messages.join(format!("{id}.txt"));
    std::fs::read(&with_ending)
        .or_else(|_| std::fs::read(messages.join(id)))
        .unwrap_or_else(|error| panic!("{}: {error}", with_ending.display()))
}

impl Tally {
    fn compare(&mut self, rules: &RuleSet, expected: &Expected, messages: &Path) {
        let message = read(messages, &expected.id);
        let start = Instant::now();
        let report = rules.scan(&message, &ScanContext::default());
        let time = start.elapsed();
        self.time += time;
        self.bytes += message.len();
        if self
            .slowest
            .as_ref()
            .is_none_or(|(slowest, _)| time > *slowest)
        {
            self.slowest = Some((time, expected.id.clone()));
        }
        self.messages += 1;
        let ours: BTreeSet<&str> = report.hits.iter().map(|hit| &*hit.name).collect();
        for rule in expected.hits.keys() {
            if ours.contains(rule.as_str()) {
                self.both += 1;
            } else {
                let difference = self.rules.entry(rule.clone()).or_default();
                difference.only_theirs.push(expected.id.clone());
            }
        }
        for rule in ours {
            if !expected.hits.contains_key(rule) {
                let difference = self.rules.entry(rule.to_owned()).or_default();
                difference.only_ours.push(expected.id.clone());
            }
        }
        let verdict = expected.score >= report.required;
        self.verdicts_differ += usize::from(verdict != report.is_spam());
        let difference = (expected.score - report.score).abs();
        self.scores_differ += usize::from(difference > SCORE_DIFFERENCE_MAX);
    }

    fn print(&self, problems: &[RuleProblem]) {
        let differ: usize = self
            .rules
            .values()
            .map(|difference| difference.only_ours.len() + difference.only_theirs.len())
            .sum();
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let agree = percent(self.both, self.both + differ);
        println!(
            "{} messages, {} hits agree, {differ} differ: {agree:.2} %",
            self.messages, self.both
        );
        let same_verdict = percent(self.messages - self.verdicts_differ, self.messages);
        println!("verdict agrees: {same_verdict:.2} %");
        let scores = percent(self.scores_differ, self.messages);
        println!("score differs by more than {SCORE_DIFFERENCE_MAX}: {scores:.2} %");
        let rate = self.messages as f64 / self.time.as_secs_f64();
        println!(
            "{rate:.0} messages/s, {} bytes, slowest {:?}",
            self.bytes, self.slowest
        );
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|(_, difference)| {
            std::cmp::Reverse(difference.only_ours.len() + difference.only_theirs.len())
        });
        let only = std::env::var("GATEPOST_ONLY").ok();
        for (rule, difference) in rules {
            let examples = match &only {
                Some(only) if only == rule => usize::MAX,
                Some(_) => continue,
                None => EXAMPLES_MAX,
            };
            let problem = problems
                .iter()
                .find(|problem| problem.rule.as_deref() == Some(rule));
            let cause = problem
                .map(|problem| problem.reason.as_str())
                .unwrap_or_default();
            println!(
                "{rule:32} missing {:3}, too much {:3}  {cause}",
                difference.only_theirs.len(),
                difference.only_ours.len()
            );
            for (sign, ids) in [("-", &difference.only_theirs), ("+", &difference.only_ours)] {
                for id in ids.iter().take(examples) {
                    println!("      {sign} {id}");
                }
            }
        }
    }
}
