//! The rules of the server: loaded in parallel to the listeners, and only if they are needed.
//!
//! A server for MQTT and the web reads no rule folder. If a listener or a scope may need the rules
//! for its next message, loading begins at the start, and the listeners do not wait for it;
//! otherwise the first message that needs the rules starts it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use gatepost_message::Listener;
use gatepost_operations::learner::{Learner, LearningError};
use gatepost_procedures::{DeferredRules, ScopeMember};
use gatepost_rules::{RuleProblem, RuleSet, RulesSettings, Severity};
use parking_lot::RwLock;

use super::huge_pages::MemoryBefore;
use super::memory;
use crate::config::Config;

/// Errors of the rule folders that are logged; a folder made for another version has thousands.
pub(super) const ERRORS_LOGGED: usize = 10;

/// The procedure that runs the rules.
const SPAMCHECK: &str = "/spamcheck";

/// The problems of the rule folders in force.
pub(super) type RuleProblems = Arc<RwLock<Arc<[RuleProblem]>>>;

/// Whether the next message may need the rules: the clients of spamd and of the call listener can
/// request them, and other listeners need them if a scope runs them.
pub(super) fn are_needed(config: &Config) -> bool {
    let bindings = config.listeners.bindings();
    let is_open = |listener: &Listener| {
        let binding = bindings.iter().find(|one| one.listener == *listener);
        binding.is_some_and(|binding| binding.addresses().next().is_some())
    };
    let judges_mail = |listener: &Listener| {
        matches!(listener, Listener::Smtp | Listener::Lmtp | Listener::Milter)
    };
    let runs_rules = |member: &String| {
        let member = member.parse::<ScopeMember>();
        member.is_ok_and(|member| member.path == SPAMCHECK)
    };
    let mut open = bindings
        .iter()
        .map(|binding| binding.listener)
        .filter(is_open);
    open.any(|listener| {
        matches!(listener, Listener::Spamd | Listener::Call)
            || config.scope.iter().any(|scope| {
                let is_of_scope = scope.listeners.is_empty() || scope.listeners.contains(&listener);
                judges_mail(&listener) && is_of_scope && scope.run.iter().any(runs_rules)
            })
    })
}

/// The rules of these settings, loaded when they are first needed. Unusable parts of their folders
/// are then listed in the problems.
pub(super) fn deferred(
    settings: &RulesSettings,
    learner: &Arc<Learner>,
    problems: &RuleProblems,
) -> DeferredRules {
    let (settings, learner, problems) = (settings.clone(), learner.clone(), problems.clone());
    let of_warm_up = settings.clone();
    let memory_before = Arc::new(OnceLock::new());
    let observed = memory_before.clone();
    let load = move || {
        observed.get_or_init(|| MemoryBefore::observe(&settings));
        let (rules, unusable) = load(&settings, &learner)
            .inspect_err(|error| tracing::error!(target: "rules", "{error}"))
            .ok()?;
        *problems.write() = unusable;
        Some(rules)
    };
    DeferredRules::new(load, move |rules| {
        if of_warm_up.warm_up {
            warm_up(rules);
        }
        memory::give_back();
        memory_before.get().map(MemoryBefore::back_filled_ranges);
    })
}

/// Loads the rule folders and the learned data. Unusable rules are logged as warnings, a few lines
/// at most.
pub(super) fn load(
    settings: &RulesSettings,
    learner: &Learner,
) -> Result<(Arc<RuleSet>, Arc<[RuleProblem]>), LearningError> {
    let started = Instant::now();
    let (rules, problems) = RuleSet::load(&settings.paths, settings);
    let is_error = |problem: &&RuleProblem| problem.severity == Severity::Error;
    for problem in problems.iter().filter(is_error).take(ERRORS_LOGGED) {
        tracing::warn!(target: "rules", "{problem}");
    }
    tracing::info!(
        target: "rules",
        "{} rules loaded in {} ms; `gatepost check --rules` lists those that cannot run",
        rules.statistics().rules,
        started.elapsed().as_millis()
    );
    let rules = rules.with_learning(learner.learning()?.clone());
    Ok((Arc::new(rules), problems.into()))
}

/// Computes in advance the states for which the first messages would wait.
fn warm_up(rules: &RuleSet) {
    let started = Instant::now();
    rules.warm_up();
    let took = started.elapsed().as_millis();
    tracing::info!(target: "rules", "warmed up in {took} ms");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A config without listeners, changed by a text of its form.
    fn needs(changes: &[&str]) -> bool {
        let mut config: toml::Table = toml::from_str(
            "[listeners]\n\
             smtp.bind = []\nlmtp.bind = []\nmilter.bind = []\npop3.bind = []\nspamd.bind = []\n\
             call.bind = []\nmqtt.bind = []\nhttp.bind = []\n",
        )
        .expect("TOML");
        for change in changes {
            let change: toml::Table = toml::from_str(change).expect("TOML");
            for (key, value) in change {
                match (config.get_mut(&key), value) {
                    (Some(toml::Value::Table(known)), toml::Value::Table(more)) => {
                        for (name, value) in more {
                            known.insert(name, value);
                        }
                    }
                    (_, value) => {
                        config.insert(key, value);
                    }
                }
            }
        }
        are_needed(&config.try_into().expect("a config"))
    }

    #[test]
    fn listeners_and_scopes_decide_whether_rules_are_needed() {
        let web = "listeners.mqtt = {}\nlisteners.http = {}";
        let bound = |listener: &str| format!("listeners.{listener}.bind = [\"127.0.0.1:1\"]");
        assert!(!needs(&[]));
        assert!(!needs(&[web]), "the default scope is for mail");
        for listener in ["smtp", "lmtp", "milter", "spamd", "call"] {
            assert!(needs(&[web, &bound(listener)]), "{listener}");
        }
        for listener in ["pop3", "mqtt", "http"] {
            assert!(!needs(&[&bound(listener)]), "{listener}");
        }
        let scope = |run: &str, listeners: &str| {
            format!("[[scope]]\npath = \"/s\"\nrun = [\"{run}\"]\nlisteners = [{listeners}]")
        };
        let smtp = bound("smtp");
        assert!(!needs(&[&smtp, &scope("/sizecheck", "")]));
        assert!(needs(&[&smtp, &scope("/spamcheck", "")]));
        assert!(needs(&[&smtp, &scope("/spamcheck -reject 9", "\"smtp\"")]));
        assert!(!needs(&[&smtp, &scope("/spamcheck", "\"lmtp\"")]));
        assert!(!needs(&[web, &scope("/spamcheck", "")]));
    }
}
