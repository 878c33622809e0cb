//! All rules of some folders, compiled.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::compile::{self, Abilities, RuleFacts};
use crate::language::options::Options;
use crate::language::{self, Definitions, Language};
use crate::mail::{Configuration, Mail};
use crate::report;
use crate::scan::{Near, Program, State};
use crate::{Hit, Problem, Report, RulesSettings, ScanContext, Severity};

/// The rules that are part of the program, and the name that problems call their file.
const EMBEDDED: (&str, &str) = (
    "gatepost.cf",
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/rules/gatepost.cf")),
);
/// Whose `lang` lines apply.
const LOCALE: &str = "en_US";

/// How many rules there are, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Rules that run, sub-rules included.
    pub rules: usize,
    /// Rules that were read and cannot run here; each has a [`Problem`].
    pub not_running: usize,
    /// Rule files read.
    pub files: usize,
    /// Bytes of rule files read.
    pub bytes: usize,
}

/// A meta rule that one change would have made hit.
#[derive(Debug, Clone, PartialEq)]
pub struct NearMiss {
    /// The meta's name.
    pub name: Arc<str>,
    /// What it would have added.
    pub score: f64,
    /// The rule on which it failed.
    pub other: Arc<str>,
    /// Whether that rule would have had to hit; otherwise it would have had to not hit.
    pub needs_hit: bool,
}

/// All rules of some folders, compiled; shared by all threads.
pub struct RuleSet {
    program: Program,
    facts: Vec<RuleFacts>,
    options: Arc<Options>,
    configuration: Configuration,
    required: f64,
    size_max: usize,
    time_max: Duration,
    statistics: Statistics,
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RuleSet")
            .field("statistics", &self.statistics)
            .finish_non_exhaustive()
    }
}

impl RuleSet {
    /// Reads and compiles the rules of these folders and files, in this order. Never fails: what
    /// cannot be used is told as a problem and skipped. Without any existing path the set is the
    /// embedded one.
    pub fn load(paths: &[PathBuf], settings: &RulesSettings) -> (Self, Vec<Problem>) {
        let language = Language {
            locale: LOCALE.to_owned(),
            local_only: !settings.network,
        };
        let preferences = settings.preferences.as_deref();
        let mut definitions = language::read_paths(paths, preferences, &language)
            .unwrap_or_else(|| embedded_definitions(preferences, &language));
        if settings.network {
            definitions.problems.push(network_is_missing());
        }
        Self::compile(definitions, settings)
    }

    /// The small rule set that is part of the program.
    pub fn embedded() -> Self {
        Self::load(&[], &RulesSettings::default()).0
    }

    fn compile(mut definitions: Definitions, settings: &RulesSettings) -> (Self, Vec<Problem>) {
        let abilities = Abilities {
            network: false,
            bayes: false,
        };
        let compiled = compile::compile(&mut definitions, abilities);
        let required = settings
            .required_score
            .unwrap_or(definitions.options.required_score);
        let set = Self {
            statistics: Statistics {
                rules: compiled.facts.len(),
                not_running: compiled.not_running,
                ..definitions.statistics
            },
            program: compiled.program,
            facts: compiled.facts,
            options: Arc::new(definitions.options),
            configuration: definitions.configuration,
            required,
            size_max: settings.max_size.as_usize(),
            time_max: settings.max_time.duration(),
        };
        (set, definitions.problems)
    }

    /// Judges one message, given as RFC 5322 text with either line end.
    pub fn scan(&self, message: &[u8], context: &ScanContext<'_>) -> Report {
        let message = message.get(..self.size_max).unwrap_or(message);
        let mail = Mail::parse_with(message, &self.configuration);
        let state = self.program.run(&mail, self.time_max, context);
        self.report(&mail, state)
    }

    /// Judges one message as [`RuleSet::scan`] does, and adds the metas that nearly hit: something
    /// they name did, and one rule more or less would have made them hit.
    pub fn explain(&self, message: &[u8], context: &ScanContext<'_>) -> (Report, Vec<NearMiss>) {
        let message = message.get(..self.size_max).unwrap_or(message);
        let mail = Mail::parse_with(message, &self.configuration);
        let state = self.program.run(&mail, self.time_max, context);
        let near = self.program.metas.near(&state);
        let near = near.into_iter().filter_map(|near| self.near_miss(near));
        (self.report(&mail, state), near.collect())
    }

    fn near_miss(&self, near: Near) -> Option<NearMiss> {
        let meta = self.facts.get(near.meta as usize)?;
        let other = self.facts.get(near.other as usize)?;
        (!meta.is_sub_rule).then(|| NearMiss {
            name: Arc::clone(&meta.name),
            score: meta.score,
            other: Arc::clone(&other.name),
            needs_hit: near.needs_hit,
        })
    }

    fn report(&self, mail: &Mail<'_>, mut state: State) -> Report {
        state.hits.sort_unstable();
        let mut score = 0.0;
        let mut hits = Vec::with_capacity(state.hits.len());
        for &rule in &state.hits {
            let Some(facts) = self.facts.get(rule as usize) else {
                continue;
            };
            if facts.is_sub_rule {
                continue;
            }
            score += facts.score;
            let matched = state.matched.iter().position(|(known, _)| *known == rule);
            hits.push(Hit {
                name: Arc::clone(&facts.name),
                score: facts.score,
                description: Arc::clone(&facts.description),
                area: facts.prefix,
                matched: matched.map(|index| state.matched.swap_remove(index).1),
            });
        }
        let name = |&rule: &u32| {
            self.facts
                .get(rule as usize)
                .map(|facts| Arc::clone(&facts.name))
        };
        Report {
            score: report::round(score),
            required: self.required,
            hits,
            limited: state.limited.iter().filter_map(name).collect(),
            preview: report::preview(mail.body()),
            options: Arc::clone(&self.options),
        }
    }

    /// How many rules there are.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Compiles every pattern now instead of when it is first needed. Returns the names of rules
    /// whose pattern turns out not to compile, with the reason.
    pub fn compile_all(&self) -> Vec<(Arc<str>, String)> {
        self.program
            .patterns()
            .filter_map(|(rule, pattern)| {
                let reason = pattern.compile().err()?;
                let facts = self.facts.get(rule as usize)?;
                Some((Arc::clone(&facts.name), reason))
            })
            .collect()
    }
}

fn embedded_definitions(preferences: Option<&Path>, language: &Language) -> Definitions {
    let mut definitions = Definitions::default();
    let mut texts = vec![(PathBuf::from(EMBEDDED.0), EMBEDDED.1.as_bytes().to_vec())];
    if let Some(path) = preferences {
        match std::fs::read(path) {
            Ok(text) => texts.push((path.to_path_buf(), text)),
            Err(error) => definitions
                .problems
                .push(language::unreadable(path, &error)),
        }
    }
    language::read_texts(&mut definitions, &texts, language);
    definitions
}

fn network_is_missing() -> Problem {
    Problem {
        severity: Severity::Error,
        file: Arc::default(),
        line: 0,
        rule: None,
        cause: "network tests are off",
        reason: "network = true asks for tests that do not exist yet".to_owned(),
        mend: "set network = false".to_owned(),
    }
}
