//! Everything compiled from one configuration: the procedures by path, and the scopes.
//!
//! A set is immutable; a reload builds another one and swaps it as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost_message::Listener;

use crate::builtin::names;
use crate::builtin_factory::BuiltinFactory;
use crate::chain::{ChainMember, ProcedureChain};
use crate::deferred_rules::DeferredRules;
use crate::host::{ProcedureHost, Resources, malformed_hosts};
use crate::luau::{self, ProcedureFolder};
use crate::procedure::Procedure;
use crate::scope::{Scope, ScopeId};
use crate::status::ProcedureStatistics;
use crate::{
    ConfigurationProblem, ProblemSeverity, ProcedureArguments, ProceduresConfiguration,
    ProceduresSettings, ScopeMember,
};

pub(crate) struct ProcedureSet {
    pub(crate) configuration: Arc<ProceduresConfiguration>,
    pub(crate) rules: DeferredRules,
    /// The files that the Luau procedures came from.
    pub(crate) folder: ProcedureFolder,
    pub(crate) resources: Arc<Resources>,
    /// Each procedure is a chain of one, so that a call needs no more than a look-up.
    procedures: BTreeMap<String, ProcedureChain>,
    scopes: Vec<Scope>,
}

/// One line of a list of procedures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcedureListing {
    /// The path.
    pub path: String,
    /// The file that defines it; `None` for a built-in one.
    pub file: Option<PathBuf>,
    /// The paths of the scopes that run it, in their order.
    pub scopes: Vec<String>,
}

impl ProcedureSet {
    pub(crate) fn listing(&self) -> Vec<ProcedureListing> {
        let files: BTreeMap<&str, &Path> = self.folder.procedures().collect();
        let listed = |path: &String| {
            let runs = |scope: &&Scope| scope.chain.0.iter().any(|step| *step.path == **path);
            ProcedureListing {
                path: path.clone(),
                file: files
                    .get(path.as_str())
                    .filter(|_| !names::ALL.contains(&path.as_str()))
                    .map(|file| (*file).to_owned()),
                scopes: self
                    .scopes
                    .iter()
                    .filter(runs)
                    .map(|scope| scope.path.clone())
                    .collect(),
            }
        };
        self.procedures.keys().map(listed).collect()
    }

    /// The path of every scope, in order, with the paths of its procedures.
    pub(crate) fn scope_listing(&self) -> Vec<(String, Vec<String>)> {
        let steps = |scope: &Scope| {
            let steps = scope.chain.0.iter();
            steps.map(|step| step.path.to_string()).collect()
        };
        let scopes = self.scopes.iter();
        scopes
            .map(|scope| (scope.path.clone(), steps(scope)))
            .collect()
    }

    /// Compiles a configuration. Problems that can be ignored are warnings, others are errors; the
    /// caller decides whether to start or to keep the present set.
    pub(crate) fn build(
        configuration: Arc<ProceduresConfiguration>,
        rules: DeferredRules,
        folder: ProcedureFolder,
        statistics: &ProcedureStatistics,
        host: &ProcedureHost,
    ) -> (Self, Vec<ConfigurationProblem>) {
        let mut problems = Vec::new();
        let ProceduresSettings { dns, http, .. } = &configuration.procedures;
        let resources = Arc::new(Resources::new(host, dns, http));
        for url in malformed_hosts(&configuration.procedures.http) {
            let text = format!(
                "'{url}' is not a scheme, host and port, as in \
                    \"https://hooks.example.org\""
            );
            problems.push(ConfigurationProblem::error("procedures.http.hosts", text));
        }
        let builder = SetBuilder {
            configuration: &configuration,
            parts: BuiltinFactory {
                table: &configuration.table,
                rules: &rules,
                resources: &resources,
            },
            statistics,
        };
        let procedures = builder.procedures(&folder, &mut problems);
        unused_tables(&configuration, &procedures, &mut problems);
        let scopes = builder.scopes(&procedures, &mut problems);
        let chain_of_one = |(path, step)| (path, ProcedureChain(Arc::new([step])));
        let set = Self {
            rules: rules.clone(),
            folder,
            procedures: procedures.into_iter().map(chain_of_one).collect(),
            scopes,
            resources: Arc::clone(&resources),
            configuration: Arc::clone(&configuration),
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

    /// The chain of a path: one procedure, or all procedures of a scope.
    pub(crate) fn chain(&self, path: &str) -> Option<&ProcedureChain> {
        if let Some(chain) = self.procedures.get(path) {
            return Some(chain);
        }
        let scope = self.scopes.iter().find(|scope| scope.path == path)?;
        Some(&scope.chain)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.procedures.keys().map(String::as_str)
    }
}

/// The parts that a set is built from.
struct SetBuilder<'a> {
    configuration: &'a ProceduresConfiguration,
    parts: BuiltinFactory<'a>,
    statistics: &'a ProcedureStatistics,
}

impl SetBuilder<'_> {
    /// Every procedure by its path: the built-in ones, and those of the folder.
    fn procedures(
        &self,
        folder: &ProcedureFolder,
        problems: &mut Vec<ConfigurationProblem>,
    ) -> BTreeMap<String, ChainMember> {
        let mut procedures = BTreeMap::new();
        for path in names::ALL {
            match self.parts.make(path, path, &ProcedureArguments::none()) {
                Ok(procedure) => {
                    procedures.insert(path.to_owned(), self.step(path, procedure));
                }
                Err(text) => problems.push(ConfigurationProblem::error(
                    format!("procedure.\"{path}\""),
                    text,
                )),
            }
        }
        for (path, procedure) in
            luau::compile(folder, self.configuration, self.parts.resources, problems)
        {
            if names::ALL.contains(&path.as_str()) {
                problems.push(ConfigurationProblem::warning(
                    folder.file_of(&path),
                    format!("{path} is built in, so this file is not used; rename it"),
                ));
                continue;
            }
            let step = self.step(&path, procedure);
            procedures.insert(path, step);
        }
        procedures
    }

    fn step(&self, path: &str, procedure: Arc<dyn Procedure>) -> ChainMember {
        ChainMember {
            path: Arc::from(path),
            counters: self.statistics.of(path),
            procedure,
            arguments: ProcedureArguments::none(),
        }
    }

    fn scopes(
        &self,
        procedures: &BTreeMap<String, ChainMember>,
        problems: &mut Vec<ConfigurationProblem>,
    ) -> Vec<Scope> {
        let mut seen = BTreeSet::new();
        let mut scopes = Vec::new();
        for (number, settings) in self.configuration.scopes.iter().enumerate() {
            let path = &settings.path;
            let place = |key: &str| format!("scope.{number}.{key}");
            if !path.starts_with('/') {
                let text = format!(
                    "'{path}' is not a path; a scope's path begins with '/', as in \
                        \"/mail\""
                );
                problems.push(ConfigurationProblem::error(place("path"), text));
            }
            if procedures.contains_key(path) || !seen.insert(path) {
                let text = format!("{path} exists already; give this scope another path");
                problems.push(ConfigurationProblem::error(place("path"), text));
            }
            if settings.run.is_empty() {
                let text = "the scope runs nothing; name procedures, as in run = [\"/sizecheck\"]";
                problems.push(ConfigurationProblem::error(place("run"), text));
            }
            let mut steps = Vec::new();
            for member in &settings.run {
                match self.member(member, procedures) {
                    Ok(step) => steps.push(step),
                    Err(text) => problems.push(ConfigurationProblem::error(place("run"), text)),
                }
            }
            problems.extend(learning_before_greylist(&steps, place("run")));
            scopes.push(Scope::new(settings, ProcedureChain(steps.into())));
        }
        scopes
    }

    /// A member of a scope: a procedure as it is, or one with arguments of its own.
    fn member(
        &self,
        text: &str,
        procedures: &BTreeMap<String, ChainMember>,
    ) -> Result<ChainMember, String> {
        let ScopeMember { path, arguments } =
            text.parse().map_err(|error| format!("'{text}': {error}"))?;
        let is_builtin = names::ALL.contains(&path.as_str());
        let known = procedures.get(&path);
        if known.is_none() && !is_builtin {
            return Err(no_such_procedure(&path, self.configuration, procedures));
        }
        match known {
            Some(step) if arguments.is_empty() => Ok(step.clone()),
            Some(step) if !is_builtin => Ok(ChainMember {
                arguments,
                ..step.clone()
            }),
            _ => {
                let procedure = self.parts.make(&path, text, &arguments);
                let procedure = procedure.map_err(|error| format!("'{text}': {error}"))?;
                Ok(self.step(&path, procedure))
            }
        }
    }
}

/// A mail that is deferred must not be learned from: the sender may never return, or the mail would
/// be learned twice.
fn learning_before_greylist(steps: &[ChainMember], place: String) -> Option<ConfigurationProblem> {
    let position = |path| steps.iter().position(|step| &*step.path == path);
    let (greylist, spamcheck) = (position(names::GREYLIST)?, position(names::SPAMCHECK)?);
    let text = "/spamcheck learns from mail that /greylist then defers; write /greylist first";
    (spamcheck < greylist).then(|| ConfigurationProblem::warning(place, text))
}

/// A table for a procedure that does not exist is most likely a misspelt path.
fn unused_tables(
    configuration: &ProceduresConfiguration,
    procedures: &BTreeMap<String, ChainMember>,
    problems: &mut Vec<ConfigurationProblem>,
) {
    for path in configuration.table.luau.keys() {
        if !procedures.contains_key(path) {
            problems.push(ConfigurationProblem::error(
                format!("procedure.\"{path}\""),
                no_such_procedure(path, configuration, procedures),
            ));
        }
    }
}

fn no_such_procedure(
    path: &str,
    configuration: &ProceduresConfiguration,
    procedures: &BTreeMap<String, ChainMember>,
) -> String {
    if let Some(name) = path.strip_suffix(".luau") {
        let name = name.trim_start_matches('/');
        return format!("there is no procedure {path}; its name has no .luau: \"/{name}\"");
    }
    let known: Vec<&str> = procedures.keys().map(String::as_str).collect();
    let folder = &configuration.procedures.path;
    let file = folder.join(format!("{}.luau", path.trim_start_matches('/')));
    if file.is_file() {
        let file = file.display();
        return format!("the procedure {path} cannot be used, since {file} has an error");
    }
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(path, name), name))
        .min()
        .filter(|&(distance, name)| distance <= name.len() / 3);
    match nearest {
        Some((_, name)) => format!("there is no procedure {path}; did you mean {name}?"),
        None => format!(
            "there is no procedure {path}; put it into {}, or name one of {}",
            file.display(),
            known.join(", ")
        ),
    }
}

/// Whether a set with these problems may be used.
pub(crate) fn usable(problems: &[ConfigurationProblem]) -> bool {
    problems
        .iter()
        .all(|problem| problem.severity != ProblemSeverity::Error)
}
