//! SIGHUP: rules, procedures and scopes are compiled beside the running ones and swapped at once.
//! With a mistake anywhere, the running ones stay, and the log names the mistake.

use std::sync::Arc;
use std::time::Instant;

use gatepost_procedures::Procedures;
use gatepost_rules::{RuleSet, RulesSettings, Severity};
use gatepost_users::Users;

use crate::cli::ConfigSource;
use crate::learning::{Learner, Lessons};

/// Errors of the rule folders that are logged; a folder made for another version has thousands.
const ERRORS_LOGGED: usize = 10;

/// Loads the rule folders; what cannot be used of them is a warning, told in a few lines.
pub(super) fn load_rules(settings: &RulesSettings, learner: &Learner) -> Arc<RuleSet> {
    let started = Instant::now();
    let (rules, problems) = RuleSet::load(&settings.paths, settings);
    let is_error = |problem: &&gatepost_rules::Problem| problem.severity == Severity::Error;
    for problem in problems.iter().filter(is_error).take(ERRORS_LOGGED) {
        tracing::warn!(target: "rules", "{problem}");
    }
    tracing::info!(
        target: "rules",
        "{} rules loaded in {} ms; `gatepost check --rules` lists those that cannot run",
        rules.statistics().rules,
        started.elapsed().as_millis()
    );
    Arc::new(rules.with_learning(learner.learning.clone()))
}

/// Reads users, rules and the keys of token issuers again.
pub(super) fn reload_users(users: &Users) {
    if let Err(error) = users.reload() {
        tracing::error!(target: "users", %error, "not reloaded: the last known users stay");
    }
}

/// Reads the config again and swaps what can change while running.
pub(super) fn reload(
    source: &ConfigSource,
    procedures: &Procedures,
    learner: &Learner,
    lessons: &Lessons,
) {
    let (config, origins) = match source.load() {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            for mistake in mistakes {
                tracing::error!("not reloaded: {mistake}");
            }
            return;
        }
    };
    let rules = load_rules(&config.rules, learner);
    lessons.set_settings(rules.learning_settings().clone());
    match procedures.reload(config.procedures(), rules) {
        Ok(problems) => {
            for mistake in crate::config::told(&origins, &problems) {
                tracing::warn!(target: "procedures", "{mistake}");
            }
            tracing::info!("reloaded");
        }
        Err(problems) => {
            for mistake in crate::config::told(&origins, &problems) {
                tracing::error!(target: "procedures", "not reloaded: {mistake}");
            }
        }
    }
}
