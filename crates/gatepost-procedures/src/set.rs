//! Everything compiled from one configuration: the procedures by path, and the scopes.
//!
//! Immutable; a reload builds another one beside it and swaps it in whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gatepost_message::Listener;
use gatepost_rules::RuleSet;

use crate::builtin::{Noop, Sizecheck, Spamcheck, StatusReport, names};
use crate::chain::{Chain, Step};
use crate::luau::{self, Folder};
use crate::procedure::Procedure;
use crate::scope::{Scope, ScopeId};
use crate::status::Statistics;
use crate::{Configuration, Problem, Severity};

pub(crate) struct Set {
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) rules: Arc<RuleSet>,
    /// The files that the Luau procedures came from.
    pub(crate) folder: Folder,
    /// Each procedure is a chain of one, so that a call needs no more than a look-up.
    procedures: BTreeMap<String, Chain>,
    scopes: Vec<Scope>,
}

impl Set {
    /// Compiles a configuration. What can be passed over is a warning; what cannot be is an
    /// error, and the caller decides whether to start or to keep the set it has.
    pub(crate) fn build(
        configuration: Arc<Configuration>,
        rules: Arc<RuleSet>,
        folder: Folder,
        statistics: &Statistics,
    ) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut procedures = BTreeMap::new();
        let mut register = |path: &str, procedure: Arc<dyn Procedure>| {
            let step = step(path, procedure, statistics);
            procedures.insert(path.to_owned(), step);
        };
        let table = &configuration.table;
        register(names::NOOP, Arc::new(Noop));
        register(names::STATUS, Arc::new(StatusReport));
        register(
            names::SIZECHECK,
            Arc::new(Sizecheck(table.sizecheck.clone())),
        );
        register(
            names::SPAMCHECK,
            Arc::new(Spamcheck {
                settings: table.spamcheck.clone(),
                rules: Arc::clone(&rules),
            }),
        );
        for (path, procedure) in luau::compile(&folder, &configuration, &mut problems) {
            if names::ALL.contains(&path.as_str()) {
                problems.push(Problem::warning(
                    folder.file_of(&path),
                    format!("{path} is built in, so this file is not used; rename it"),
                ));
                continue;
            }
            register(&path, procedure);
        }
        unused_tables(&configuration, &procedures, &mut problems);
        let scopes = scopes(&configuration, &procedures, &mut problems);
        let chain_of_one = |(path, step)| (path, Chain(Arc::new([step])));
        let set = Self {
            configuration,
            rules,
            folder,
            procedures: procedures.into_iter().map(chain_of_one).collect(),
            scopes,
        };
        (set, problems)
    }

    pub(crate) fn scope_for(
        &self,
        listener: Listener,
        topic: Option<&str>,
        recipients: &[String],
    ) -> Option<ScopeId> {
        self.scopes
            .iter()
            .position(|scope| scope.fits(listener, topic, recipients))
            .map(ScopeId)
    }

    pub(crate) fn scope(&self, id: ScopeId) -> Option<&Scope> {
        self.scopes.get(id.0)
    }

    /// The chain that a path names: one procedure, or a scope's whole.
    pub(crate) fn chain(&self, path: &str) -> Option<Chain> {
        if let Some(chain) = self.procedures.get(path) {
            return Some(chain.clone());
        }
        let scope = self.scopes.iter().find(|scope| scope.path == path)?;
        Some(scope.chain.clone())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.procedures.keys().map(String::as_str)
    }
}

fn step(path: &str, procedure: Arc<dyn Procedure>, statistics: &Statistics) -> Step {
    Step {
        path: Arc::from(path),
        counters: statistics.of(path),
        procedure,
    }
}

/// A table for a procedure that does not exist is most likely a misspelt path.
fn unused_tables(
    configuration: &Configuration,
    procedures: &BTreeMap<String, Step>,
    problems: &mut Vec<Problem>,
) {
    for path in configuration.table.luau.keys() {
        if !procedures.contains_key(path) {
            problems.push(Problem::error(
                format!("procedure.\"{path}\""),
                no_such_procedure(path, configuration, procedures),
            ));
        }
    }
}

fn scopes(
    configuration: &Configuration,
    procedures: &BTreeMap<String, Step>,
    problems: &mut Vec<Problem>,
) -> Vec<Scope> {
    let mut seen = BTreeSet::new();
    let mut scopes = Vec::new();
    for (number, settings) in configuration.scopes.iter().enumerate() {
        let path = &settings.path;
        let place = |key: &str| format!("scope.{number}.{key}");
        if !path.starts_with('/') {
            let text =
                format!("'{path}' is no path; a scope's path begins with '/', as in \"/mail\"");
            problems.push(Problem::error(place("path"), text));
        }
        if procedures.contains_key(path) || !seen.insert(path) {
            let text = format!("{path} is taken already; give this scope another path");
            problems.push(Problem::error(place("path"), text));
        }
        if settings.run.is_empty() {
            let text = "the scope runs nothing; name procedures, as in run = [\"/sizecheck\"]";
            problems.push(Problem::error(place("run"), text));
        }
        let mut steps = Vec::new();
        for member in &settings.run {
            if let Some(step) = procedures.get(member) {
                steps.push(step.clone());
            } else {
                let text = no_such_procedure(member, configuration, procedures);
                problems.push(Problem::error(place("run"), text));
            }
        }
        scopes.push(Scope::new(settings, Chain(steps.into())));
    }
    scopes
}

fn no_such_procedure(
    path: &str,
    configuration: &Configuration,
    procedures: &BTreeMap<String, Step>,
) -> String {
    let known: Vec<&str> = procedures.keys().map(String::as_str).collect();
    let folder = configuration.procedures.path.display();
    let file = path.trim_start_matches('/');
    format!(
        "there is no procedure {path}; put it into {folder}/{file}.luau, or name one of {}",
        known.join(", ")
    )
}

/// Whether a set with these problems may be used.
pub(crate) fn usable(problems: &[Problem]) -> bool {
    problems
        .iter()
        .all(|problem| problem.severity != Severity::Error)
}
