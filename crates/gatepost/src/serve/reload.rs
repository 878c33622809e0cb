//! Reload, by SIGHUP or from the dashboard: rules, procedures and scopes are compiled beside the
//! running ones and swapped at once. After any mistake the running ones stay, and the report lists
//! the mistakes. A reload can also be tried without applying it; the report then lists what would
//! change.
//!
//! A reload takes some tenths of a second on the main thread, which otherwise only waits for
//! signals and requests. Connections run on worker threads, judging on judge threads and
//! housekeeping on the control thread, so a reload delays only its requester, the next reload and
//! the shutdown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gatepost_gateway::Gateway;
use gatepost_operations::learner::{Learner, LearnerThread};
use gatepost_operations::reload::ReloadReport;
use gatepost_procedures::{Changed, Procedures};
use gatepost_rules::{Problem, RuleSet, RulesSettings, Severity};
use gatepost_users::Users;
use parking_lot::RwLock;

use super::huge_pages;
use crate::config::{Config, ConfigSource};

/// Errors of the rule folders that are logged; a folder made for another version has thousands.
const ERRORS_LOGGED: usize = 10;

/// Loads the rule folders. Unusable rules are logged as warnings, a few lines at most.
pub(super) fn load_rules(
    settings: &RulesSettings,
    learner: &Learner,
) -> (Arc<RuleSet>, Arc<[Problem]>) {
    let started = Instant::now();
    let load = || RuleSet::load(&settings.paths, settings);
    let (rules, problems) = huge_pages::used_while(load);
    let is_error = |problem: &&Problem| problem.severity == Severity::Error;
    for problem in problems.iter().filter(is_error).take(ERRORS_LOGGED) {
        tracing::warn!(target: "rules", "{problem}");
    }
    tracing::info!(
        target: "rules",
        "{} rules loaded in {} ms; `gatepost check --rules` lists those that cannot run",
        rules.statistics().rules,
        started.elapsed().as_millis()
    );
    let rules = Arc::new(rules.with_learning(learner.learning.clone()));
    (rules, problems.into())
}

/// Makes ready what the first messages would wait for, beside the listeners.
pub(super) fn warm_up(rules: Arc<RuleSet>) {
    let warm_up = move || {
        let started = Instant::now();
        huge_pages::used_while(|| rules.warm_up());
        let took = started.elapsed().as_millis();
        tracing::info!(target: "rules", "warmed up in {took} ms");
    };
    // Without it the first messages take longer, and that is all.
    let started = std::thread::Builder::new().name("warm-up".into());
    if let Err(error) = started.spawn(warm_up) {
        tracing::warn!(target: "rules", %error, "rules are not warmed up");
    }
}

/// Reads users, rules and the keys of token issuers again.
pub(super) fn reload_users(users: &Users) {
    if let Err(error) = users.reload() {
        tracing::error!(target: "users", %error, "not reloaded: the last known users stay");
    }
}

/// What a reload works on.
pub(super) struct Reloader<'a> {
    pub(super) source: &'a ConfigSource,
    pub(super) procedures: &'a Procedures,
    pub(super) gateway: &'a Gateway,
    pub(super) learner: &'a Learner,
    pub(super) learner_thread: &'a LearnerThread,
    /// What cannot be used of the rule folders that run.
    pub(super) problems: &'a RwLock<Arc<[Problem]>>,
}

impl Reloader<'_> {
    /// Reads the config again and swaps what can change while running, unless it `only_checks`.
    pub(super) fn reload(&self, only_checks: bool) -> ReloadReport {
        let report = self.try_reload(only_checks);
        match &report {
            ReloadReport { applied: true, .. } => tracing::info!("reloaded"),
            _ if only_checks => {}
            _ => {
                for problem in &report.problems {
                    tracing::error!("not reloaded: {problem}");
                }
                self.procedures.refused(report.problems.iter().cloned());
            }
        }
        report
    }

    fn try_reload(&self, only_checks: bool) -> ReloadReport {
        let (config, layers) = match self.source.load() {
            Ok(loaded) => loaded,
            Err(mistakes) => {
                let texts = mistakes.iter().map(ToString::to_string);
                return ReloadReport::impossible(texts.collect());
            }
        };
        let (rules, problems) = load_rules(&config.rules, self.learner);
        let mistakes = new_mistakes(&self.problems.read(), &problems);
        if !mistakes.is_empty() {
            return ReloadReport::impossible(mistakes);
        }
        if config.rules.warm_up && !only_checks {
            // Before they are swapped: until then messages meet the old ones, which are warm.
            huge_pages::used_while(|| rules.warm_up());
        }
        let before = self.procedures.rules();
        let placed = |problems: &[gatepost_procedures::ConfigurationProblem]| -> Vec<String> {
            let mistakes = crate::config::located(&layers, problems);
            mistakes.iter().map(ToString::to_string).collect()
        };
        let reloaded =
            self.procedures
                .reload_or_check(config.procedures(), Arc::clone(&rules), !only_checks);
        let (difference, warnings) = match reloaded {
            Ok((difference, warnings)) => (difference, placed(&warnings)),
            Err(problems) => return ReloadReport::impossible(placed(&problems)),
        };
        if !only_checks {
            for warning in &warnings {
                tracing::warn!(target: "procedures", "{warning}");
            }
            self.put_in_force(&config, &rules, problems);
        }
        ReloadReport {
            possible: true,
            applied: !only_checks,
            rules: Changed::between(&by_name(&before), &by_name(&rules)),
            rules_running: rules.statistics().rules,
            difference,
            problems: warnings,
        }
    }

    /// Applies the settings that belong to the procedures just swapped.
    fn put_in_force(&self, config: &Config, rules: &RuleSet, problems: Arc<[Problem]>) {
        self.learner_thread
            .set_settings(rules.learning_settings().clone());
        self.gateway
            .set_journal_unjudged(config.store.journal_unjudged);
        *self.problems.write() = problems;
    }
}

/// Mistakes of the rule folders that the running ones do not have. With old ones a folder is in use
/// already, so that they must not keep a better one out; and a folder may have many, which are all
/// there when the gateway starts.
fn new_mistakes(running: &[Problem], new: &[Problem]) -> Vec<String> {
    let is_known = |problem: &Problem| {
        let alike = |known: &Problem| {
            known.file == problem.file
                && known.rule == problem.rule
                && known.reason == problem.reason
        };
        running.iter().any(alike)
    };
    let is_mistake = |problem: &&Problem| problem.severity == Severity::Error && !is_known(problem);
    let mistakes = new.iter().filter(is_mistake).take(ERRORS_LOGGED);
    mistakes.map(ToString::to_string).collect()
}

fn by_name(rules: &RuleSet) -> BTreeMap<String, (f64, u64)> {
    let rules = rules.summaries().into_iter();
    rules
        .map(|rule| (rule.name.to_string(), (rule.score, rule.definition)))
        .collect()
}
