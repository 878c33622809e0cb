//! The report of `/admin/rules`: the number of rules, the rules that match most often, those that
//! take longest, those that cannot run, and the DNS lists that do not answer.

use gatepost_gateway::{Gateway, RuleHits};
use gatepost_learning::Learning;
use gatepost_rules::{RuleProblem, RuleSet, RuleTime, Severity};
use serde_json::{Value, json};

/// The report with at most `count` of the rules that match most often, and of those that cannot
/// run.
pub(crate) fn overview(
    gateway: &Gateway,
    learning: Option<&Learning>,
    problems: &[RuleProblem],
    count: usize,
) -> Value {
    let rules = gateway.procedures().rules();
    let loaded = rules.loaded();
    let statistics = loaded.map(|rules| rules.statistics()).unwrap_or_default();
    let silent = loaded.map(|rules| rules.silent_lists());
    let silent = silent.into_iter().flatten();
    let silent = silent.map(|one| json!({ "list": one.list, "skipped": one.skipped }));
    let most = gateway.counters().most_hit(count);
    // A note about a rule means that the rule is disabled, so it does not run either.
    let concerns_rule =
        |problem: &&RuleProblem| problem.rule.is_some() || problem.severity != Severity::Note;
    let not_running = problems.iter().filter(concerns_rule);
    json!({
        "state": rules.state().name(),
        "running": statistics.rules,
        "in_force": gateway.procedures().in_force(),
        "silent_lists": silent.collect::<Vec<_>>(),
        "not_running": statistics.not_running,
        "files": statistics.files,
        "bayes": loaded.zip(learning).map(|(rules, learning)| bayes(rules, learning)),
        "most_hit": most.iter().map(hits).collect::<Vec<_>>(),
        "problems_total": not_running.clone().count(),
        "problems": not_running.take(count).map(problem).collect::<Vec<_>>(),
    })
}

/// The amount of data that Bayes has learned, and whether that is enough.
fn bayes(rules: &RuleSet, learning: &Learning) -> Value {
    let settings = &rules.learning_settings().bayes;
    let statistics = learning.bayes.statistics();
    json!({
        "spam": statistics.totals.spam,
        "ham": statistics.totals.ham,
        "tokens": statistics.tokens,
        "is_ready": learning.bayes.is_ready(settings),
        "spam_min": settings.spam_min,
        "ham_min": settings.ham_min,
    })
}

/// `times` are sums over `mails` mails.
pub(crate) fn slowest(times: &[RuleTime], mails: usize) -> Value {
    let each = |time: &RuleTime| {
        let microseconds = time.time.as_secs_f64() * 1e6 / mails.max(1) as f64;
        json!({ "name": &*time.name, "microseconds": rounded(microseconds) })
    };
    json!({ "mails": mails, "rules": times.iter().map(each).collect::<Vec<_>>() })
}

fn hits((name, hits): &(String, RuleHits)) -> Value {
    json!({ "name": name, "messages": hits.messages, "score": rounded(hits.score) })
}

fn problem(problem: &RuleProblem) -> Value {
    json!({
        "rule": problem.rule.as_deref(),
        "file": problem.file.display().to_string(),
        "line": problem.line,
        "severity": problem.severity.name(),
        "cause": problem.cause,
        "reason": problem.reason,
        "fix": problem.fix,
    })
}

/// Three decimals are sufficient for display.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
