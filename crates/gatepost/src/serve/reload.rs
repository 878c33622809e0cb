//! Reload, by SIGHUP or from the dashboard: rules, procedures and scopes are compiled beside the
//! running ones and swapped at once. After any mistake the running ones remain in use, and the
//! report lists the mistakes. A reload can also be tried without applying it; the report then lists
//! what would change.
//!
//! A reload takes some tenths of a second on the main thread, which otherwise only waits for
//! signals and requests. Connections run on worker threads, judging on judge threads and
//! housekeeping on the control thread, so a reload delays only its requester, the next reload and
//! the shutdown.

use std::collections::BTreeMap;
use std::sync::Arc;

use gatepost_alarms::Alarms;
use gatepost_broker::{Broker, TopicRules};
use gatepost_gateway::Gateway;
use gatepost_operations::SettingsInForce;
use gatepost_operations::learner::Learner;
use gatepost_operations::quarantine_digest::SharedDigestSettings;
use gatepost_operations::reload::ReloadReport;
use gatepost_procedures::{DeferredRules, NameChanges, Procedures, RULES_WAIT_MAX, RulesState};
use gatepost_rules::{RuleProblem, Severity};
use gatepost_sinks::{MailQueue, Sinks};
use gatepost_store::Store;
use gatepost_users::Users;

use super::huge_pages::MemoryBefore;
use super::memory;
use super::rules::{self, ERRORS_LOGGED, RuleProblems};
use crate::config::{Config, ConfigSource, in_force};

/// Reads users, rules and the keys of token issuers again.
pub(super) fn reload_users(users: &Users) {
    if let Err(error) = users.reload() {
        tracing::error!(target: "users", %error, "not reloaded: the last known users remain in \
            use");
    }
}

/// The state that a reload works on.
pub(super) struct Reloader<'a> {
    pub(super) source: &'a ConfigSource,
    pub(super) procedures: &'a Procedures,
    pub(super) gateway: &'a Gateway,
    pub(super) store: &'a Store,
    pub(super) learner: &'a Arc<Learner>,
    pub(super) problems: &'a RuleProblems,
    pub(super) sinks: &'a Sinks,
    pub(super) mail: &'a MailQueue,
    pub(super) digest_settings: &'a SharedDigestSettings,
    pub(super) settings: &'a SettingsInForce,
    pub(super) alarms: &'a Alarms,
    pub(super) broker: &'a Broker,
}

impl Reloader<'_> {
    /// Reads the config again and replaces the parts that can change while the server runs, unless
    /// it `only_checks`.
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
        let memory_before = MemoryBefore::observe(&config.rules);
        let before = self.procedures.rules();
        let reloaded = match self.reload_rules(&config, &before, only_checks) {
            Ok(reloaded) => reloaded,
            Err(mistakes) => return ReloadReport::impossible(mistakes),
        };
        let placed = |problems: &[gatepost_procedures::ConfigurationProblem]| -> Vec<String> {
            let mistakes = crate::config::located(&layers, problems);
            mistakes.iter().map(ToString::to_string).collect()
        };
        let rules = reloaded.rules;
        let replaced =
            self.procedures
                .reload_or_check(config.procedures(), rules.clone(), !only_checks);
        let (difference, warnings) = match replaced {
            Ok((difference, warnings)) => (difference, placed(&warnings)),
            Err(problems) => return ReloadReport::impossible(placed(&problems)),
        };
        memory::give_back();
        let settings = in_force::settings(&config, &layers);
        let changed_settings = self.settings.changes_to(&settings);
        if !only_checks {
            memory_before.back_filled_ranges();
            self.settings.reloaded(settings);
            for warning in &warnings {
                tracing::warn!(target: "procedures", "{warning}");
            }
            self.store.set_limits(&config.store);
            self.gateway
                .set_journal_unjudged(config.store.journal_unjudged);
            if let Some(problems) = reloaded.problems {
                *self.problems.write() = problems;
            }
            self.apply_mail(&config);
            self.digest_settings.replace(&config.quarantine_digest);
            self.sinks.apply(&config.sink);
            self.alarms.apply(&config.alarm);
            self.apply_topic_rules(&config);
        }
        ReloadReport {
            possible: true,
            applied: !only_checks,
            rules: NameChanges::between(&by_name(&before), &by_name(&rules)),
            settings: changed_settings,
            rules_running: rules.loaded().map_or(0, |rules| rules.statistics().rules),
            difference,
            problems: warnings,
        }
    }

    /// Uses the smarthost of a new config, in which no mistake was found.
    fn apply_mail(&self, config: &Config) {
        match config.smarthost() {
            Ok(smarthost) => self.mail.use_smarthost(smarthost),
            // A file has changed since the config was checked.
            Err(error) => {
                tracing::error!(target: "sinks", "the smarthost remains unchanged: {error}");
            }
        }
    }

    /// Uses the rules for topics of a new config, in which no mistake was found.
    fn apply_topic_rules(&self, config: &Config) {
        match TopicRules::new(&config.topics) {
            Ok(rules) => self.broker.set_topic_rules(rules),
            // A file has changed since the config was checked.
            Err(error) => {
                tracing::error!(target: "broker",
                    "the rules for topics remain unchanged: {error}");
            }
        }
    }

    /// The rules of a new config. They are loaded if they are needed now, or were before; otherwise
    /// their folders are not read.
    fn reload_rules(
        &self,
        config: &Config,
        before: &DeferredRules,
        only_checks: bool,
    ) -> Result<ReloadedRules, Vec<String>> {
        let are_unneeded = before.state() == RulesState::Unneeded;
        if are_unneeded && !rules::are_needed(config) {
            return Ok(ReloadedRules {
                rules: rules::deferred(&config.rules, self.learner, self.problems),
                problems: None,
            });
        }
        // Loading for the first time may not have ended, and its mistakes count as known.
        let running = (!are_unneeded)
            .then(|| before.wait(RULES_WAIT_MAX))
            .flatten();
        let loaded = rules::load(&config.rules, self.learner);
        let (rules, problems) = loaded.map_err(|error| vec![error.to_string()])?;
        if running.is_some() {
            let mistakes = new_mistakes(&self.problems.read(), &problems);
            if !mistakes.is_empty() {
                return Err(mistakes);
            }
        }
        if config.rules.warm_up && !only_checks {
            // Done before the swap: until then messages are judged by the old rules, which are
            // warm.
            rules.warm_up();
        }
        Ok(ReloadedRules {
            rules: rules.into(),
            problems: Some(problems),
        })
    }
}

/// The rules of a new config, and the problems of their folders if these were read.
struct ReloadedRules {
    rules: DeferredRules,
    problems: Option<Arc<[RuleProblem]>>,
}

/// Mistakes of the rule folders that the running ones do not have. A folder with known mistakes is
/// in use already, so these must not prevent a better one from being loaded; and a folder may have
/// many of them, which are all known when the gateway starts.
fn new_mistakes(running: &[RuleProblem], new: &[RuleProblem]) -> Vec<String> {
    let is_known = |problem: &RuleProblem| {
        let alike = |known: &RuleProblem| {
            known.file == problem.file
                && known.rule == problem.rule
                && known.reason == problem.reason
        };
        running.iter().any(alike)
    };
    let is_mistake =
        |problem: &&RuleProblem| problem.severity == Severity::Error && !is_known(problem);
    let mistakes = new.iter().filter(is_mistake).take(ERRORS_LOGGED);
    mistakes.map(ToString::to_string).collect()
}

/// The loaded rules by name, each with its score and a hash of its definition.
fn by_name(rules: &DeferredRules) -> BTreeMap<String, (f64, u64)> {
    let rules = rules.loaded().map(|rules| rules.summaries());
    let rules = rules.into_iter().flatten();
    rules
        .map(|rule| (rule.name.to_string(), (rule.score, rule.definition)))
        .collect()
}
