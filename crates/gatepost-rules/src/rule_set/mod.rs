//! A compiled rule set: the rules of some folders with everything that a scan needs, immutable and
//! shared by all threads. Scans, profiles and tests of the set are its child modules.

mod early_end;
mod near_miss;
mod pending;
mod profiling;
mod scanning;
mod self_test;
mod survey;
mod tally;
mod warm_up;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gatepost_dns::{SilenceLimits, SilentList};
use gatepost_learning::bayes::Learned;
use gatepost_learning::{LearnFailure, LearnInstruction, Learning, LearningSettings};

use crate::compile::{self, CompiledRuleSet, ScoreSetConditions};
use crate::configuration::Configuration;
use crate::language::definition::RuleDefinition;
use crate::language::options::ReportOptions;
use crate::language::{self, RuleDefinitions, RuleFileEnvironment};
use crate::network::NetworkQueries;
use crate::report;
use crate::statistics::RuleStatistics;
use crate::users::{UserEnvironment, UserPreferences};
use crate::{RuleProblem, RulesSettings, Severity};

pub use near_miss::NearMiss;
pub use pending::{PendingScan, ScanProgress};
pub use profiling::{RuleCost, ScanProfile};
pub use survey::{RuleSummary, RuleTime};

/// The embedded rules, and the name of their file in problems.
const EMBEDDED: (&str, &str) = (
    "gatepost.cf",
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/rules/gatepost.cf")),
);

/// All rules of some folders, compiled; shared by all threads.
pub struct RuleSet {
    plain: CompiledRuleSet,
    /// The same rules with the scores for Bayes, compiled when Bayes has first learned enough.
    with_bayes: OnceLock<CompiledRuleSet>,
    definitions: RuleDefinitions,
    options: Arc<ReportOptions>,
    learning: Option<Learning>,
    users: Option<UserPreferences>,
    network: Option<NetworkQueries>,
    required: f64,
    size_max: usize,
    time_max: Duration,
    statistics: RuleStatistics,
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
    /// Reads and compiles the rules of these folders and files, in this order. Never fails: a line
    /// that cannot be used becomes a problem and is skipped. If no path exists, the set is the
    /// embedded one.
    pub fn load(paths: &[PathBuf], settings: &RulesSettings) -> (Self, Vec<RuleProblem>) {
        let language = language(settings);
        let others = settings.files_after_folders();
        let updates = language::RuleUpdates::of_package(&settings.updates);
        let definitions = language::read_paths(paths, &others, &language, &updates)
            .unwrap_or_else(|| embedded_definitions(&others, &language));
        Self::compile(definitions, settings)
    }

    /// Compiles rules in a text, as if it were a file called `name`.
    pub fn from_text(
        name: &str,
        text: &[u8],
        settings: &RulesSettings,
    ) -> (Self, Vec<RuleProblem>) {
        let language = language(settings);
        let mut definitions = RuleDefinitions::default();
        let texts = [(PathBuf::from(name), text.to_vec())];
        language::read_texts(&mut definitions, &texts, &language);
        Self::compile(definitions, settings)
    }

    /// The embedded rule set.
    pub fn embedded() -> Self {
        Self::load(&[], &RulesSettings::default()).0
    }

    fn compile(
        mut definitions: RuleDefinitions,
        settings: &RulesSettings,
    ) -> (Self, Vec<RuleProblem>) {
        let network = network_of(settings, &mut definitions);
        let abilities = ScoreSetConditions {
            network: network.is_some(),
            bayes: false,
        };
        report::given_up::define(&mut definitions, settings.given_up_score);
        let compiled = compile::compile(&mut definitions, abilities);
        definitions.configuration.views.limits = settings.mail;
        definitions.learning.bayes.enabled &= settings.bayes;
        definitions.learning.reputation.awl.enabled &= settings.auto_welcomelist;
        definitions.learning.reputation.txrep.enabled &= settings.auto_welcomelist;
        warn_of_trust(&mut definitions);
        let problems = std::mem::take(&mut definitions.problems);
        let required = settings
            .required_score
            .unwrap_or(definitions.options.required_score);
        let set = Self {
            statistics: RuleStatistics {
                rules: compiled.facts.len(),
                not_running: compiled.not_running,
                unneeded: compiled.unneeded,
                ..definitions.statistics
            },
            plain: compiled,
            with_bayes: OnceLock::new(),
            options: report::shared(&definitions.options),
            learning: None,
            network,
            users: settings.user_preferences.clone().map(|folder| {
                let environment = UserEnvironment {
                    language: language(settings),
                    permits_bayes: settings.bayes,
                    permits_reputation: settings.auto_welcomelist,
                };
                UserPreferences::new(folder, environment)
            }),
            required,
            size_max: settings.max_size.as_usize(),
            time_max: settings.max_time.duration(),
            definitions,
        };
        (set, problems)
    }

    /// Learns or forgets a message, without header fields and wrapping that a filter added, and
    /// waits until the change is on disk; it must not be called on an I/O runtime. False if there
    /// was nothing to change.
    pub fn learn(
        &self,
        message: &[u8],
        instruction: LearnInstruction,
    ) -> Result<bool, LearnFailure> {
        let learning = self.learning.as_ref().ok_or(LearnFailure::Off)?;
        let settings = self.learning_settings();
        let message = message.get(..self.size_max).unwrap_or(message);
        let message = self.remove_markup(message);
        let mail = self.configuration().scanned(&message, None);
        let changed = match instruction {
            LearnInstruction::Learn(class) => match learning.learn(&mail, class, settings)? {
                Learned::New | Learned::Changed => true,
                Learned::Before => false,
                Learned::Off => return Err(LearnFailure::Off),
            },
            LearnInstruction::Forget => learning.forget(&mail, settings)?,
        };
        learning.settle()?;
        Ok(changed)
    }

    /// The message as it was before a filter marked it, see
    /// [`Report::rewrite`](crate::Report::rewrite).
    pub fn remove_markup<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        report::remove_markup::remove_markup(message, &self.options)
    }

    /// The lines in users' preference files that have no effect.
    pub fn user_problems(&self) -> Vec<RuleProblem> {
        let runs = |name: &str| self.runs(name);
        let problems = |users: &UserPreferences| users.problems(&self.definitions, &runs);
        self.users.as_ref().map(problems).unwrap_or_default()
    }

    /// Whether a rule runs, perhaps only with Bayes, or reports a limit.
    fn runs(&self, name: &str) -> bool {
        let set = |bayes| {
            let network = self.network.is_some();
            ScoreSetConditions { network, bayes }.score_set()
        };
        let is_of_bayes = |rule: &RuleDefinition| {
            rule.test.is_some() && rule.score(set(false)) == 0.0 && rule.score(set(true)) != 0.0
        };
        report::given_up::has_rule(name)
            || self.plain.facts.iter().any(|facts| &*facts.name == name)
            || self.definitions.find(name).is_some_and(is_of_bayes)
    }

    /// Attaches learned data: from now on scans use it and add to it.
    #[must_use]
    pub fn with_learning(mut self, learning: Learning) -> Self {
        self.learning = Some(learning);
        self
    }

    /// The attached learned data.
    pub fn learning(&self) -> Option<&Learning> {
        self.learning.as_ref()
    }

    /// The directives of rule files about learning.
    pub fn learning_settings(&self) -> &LearningSettings {
        &self.definitions.learning
    }

    /// The directives of rule files other than rules.
    pub fn configuration(&self) -> &Configuration {
        &self.definitions.configuration
    }

    pub(crate) const fn compiled(&self) -> &CompiledRuleSet {
        &self.plain
    }

    pub(crate) const fn definitions(&self) -> &RuleDefinitions {
        &self.definitions
    }

    /// The DNS lists that do not respond, and currently get no queries.
    pub fn silent_lists(&self) -> Vec<SilentList> {
        let lists = self.network.as_ref().map(NetworkQueries::silent_lists);
        lists.unwrap_or_default()
    }

    /// The number of rules.
    pub fn statistics(&self) -> RuleStatistics {
        self.statistics
    }

    /// Compiles every pattern now instead of on first use. Returns the names of rules whose pattern
    /// does not compile, with the reason.
    pub fn compile_all(&self) -> Vec<(Arc<str>, String)> {
        let compiled = &self.plain;
        compiled
            .program
            .patterns()
            .filter_map(|(rule, pattern)| {
                let reason = pattern.compile().err()?;
                let facts = compiled.facts.get(rule as usize)?;
                Some((Arc::clone(&facts.name), reason))
            })
            .collect()
    }
}

/// Warns of settings about senders and relays that contradict each other.
fn warn_of_trust(definitions: &mut RuleDefinitions) {
    let warning = |cause, reason, fix: String| RuleProblem {
        severity: Severity::Warning,
        file: Arc::default(),
        line: 0,
        rule: None,
        cause,
        reason,
        fix,
    };
    for (set, network, whole) in definitions.configuration.views.untrusted_networks() {
        definitions.problems.push(warning(
            "a network is not trusted",
            format!("{set} holds {network}, which {whole} does not hold"),
            format!("add it to {whole}"),
        ));
    }
    let reputation = &definitions.learning.reputation;
    if reputation.txrep.enabled && reputation.awl.is_in_force() {
        definitions.problems.push(warning(
            "TxRep does not run",
            "AWL is loaded and switched on, and only one of them runs".to_owned(),
            "write: use_auto_welcomelist 0".to_owned(),
        ));
    }
}

fn language(settings: &RulesSettings) -> RuleFileEnvironment {
    RuleFileEnvironment {
        locale: settings.language.clone(),
        local_only: !settings.network,
    }
}

fn embedded_definitions(others: &[PathBuf], language: &RuleFileEnvironment) -> RuleDefinitions {
    let mut definitions = RuleDefinitions::default();
    let mut texts = vec![(PathBuf::from(EMBEDDED.0), EMBEDDED.1.as_bytes().to_vec())];
    for path in others {
        match std::fs::read(path) {
            Ok(text) => texts.push((path.clone(), text)),
            Err(error) => definitions
                .problems
                .push(language::unreadable(path, &error)),
        }
    }
    language::read_texts(&mut definitions, &texts, language);
    definitions
}

/// The sender of DNS queries, if DNS is enabled and available.
fn network_of(
    settings: &RulesSettings,
    definitions: &mut RuleDefinitions,
) -> Option<NetworkQueries> {
    if !settings.network {
        return None;
    }
    let time = settings.network_time_max.duration();
    let silence = SilenceLimits {
        unanswered_max: settings.list_unanswered_max,
        pause: settings.list_pause.duration(),
    };
    let made = NetworkQueries::new(settings.dns_server.as_deref(), time, silence);
    let problem = |reason| RuleProblem {
        severity: Severity::Error,
        file: Arc::default(),
        line: 0,
        rule: None,
        cause: "no DNS server",
        reason,
        fix: "network tests stay off".to_owned(),
    };
    made.map_err(|reason| definitions.problems.push(problem(reason)))
        .ok()
}
