//! User preferences (`user_prefs`): scores, the threshold, welcome lists, header fields.
//!
//! A user's file is a rule file of preferences. It may change the scores and reports of the user's
//! mail, but defines no rules: those are compiled once for all users, so no user's file can slow
//! down or break another's mail. A file is read when its user's first message arrives, and again
//! when it has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use gatepost_learning::LearningSettings;

use crate::RuleProblem;
use crate::configuration::Configuration;
use crate::language::options::ReportOptions;
use crate::language::{self, RuleCheck, RuleDefinitions, RuleFileEnvironment};
use crate::report;

/// The most users whose preferences are kept in memory; beyond this, all are read again.
const USERS_KEPT_MAX: usize = 256;
/// The longest name of a user.
const NAME_BYTES_MAX: usize = 255;
/// The name of the file in a user's folder, as in SpamAssassin.
const FILE_NAME: &str = "user_prefs";

/// One user's preferences, combined with those of the rule folders.
pub(crate) struct Preferences {
    pub(crate) options: Arc<ReportOptions>,
    pub(crate) configuration: Configuration,
    /// The learning, if its switches differ from the folders'.
    pub(crate) learning: Option<LearningSettings>,
    /// The threshold, if it differs from the folders'.
    pub(crate) required: Option<f64>,
    /// Rules with other scores, for the four score sets.
    scores: HashMap<Arc<str>, [f64; 4]>,
}

impl Preferences {
    /// Reads a file; returns its problems.
    fn read(
        text: &[u8],
        path: &Path,
        base: &RuleDefinitions,
        runs: RuleCheck<'_>,
        environment: &UserEnvironment,
    ) -> (Self, Vec<RuleProblem>) {
        let mut own = base.clone();
        own.problems.clear();
        language::read_user(&mut own, path, text, &environment.language, runs);
        let changed = own.rules.iter().filter_map(|rule| {
            let scores = std::array::from_fn(|set| rule.score(set));
            let before = base.find(&rule.name)?;
            let is_same =
                (0..4).all(|set| before.score(set).to_bits() == rule.score(set).to_bits());
            (!is_same).then(|| (Arc::clone(&rule.name), scores))
        });
        let scores = changed.collect();
        let required = own.options.required_score;
        let preferences = Self {
            scores,
            required: (required.to_bits() != base.options.required_score.to_bits())
                .then_some(required),
            options: report::shared(&own.options),
            learning: environment.learning(&base.learning, &own.learning),
            configuration: own.configuration,
        };
        (preferences, own.problems)
    }

    /// The score of a rule in a score set, if it differs from the folders'.
    pub(crate) fn score(&self, rule: &str, set: usize) -> Option<f64> {
        self.scores.get(rule)?.get(set).copied()
    }
}

/// The environment of preferences from the settings.
pub(crate) struct UserEnvironment {
    pub(crate) language: RuleFileEnvironment,
    /// Preferences cannot switch on what the settings switch off.
    pub(crate) permits_bayes: bool,
    pub(crate) permits_reputation: bool,
}

impl UserEnvironment {
    /// The learning of the folders with the switches of a user, if those differ. All else is the
    /// same for all users, who share what is learned.
    fn learning(
        &self,
        base: &LearningSettings,
        own: &LearningSettings,
    ) -> Option<LearningSettings> {
        let mut learning = base.clone();
        let bayes = &mut learning.bayes;
        bayes.enabled = own.bayes.enabled && self.permits_bayes;
        bayes.rules_enabled = own.bayes.rules_enabled;
        bayes.autolearn.enabled = own.bayes.autolearn.enabled;
        let reputation = &mut learning.reputation;
        reputation.awl.enabled = own.reputation.awl.enabled && self.permits_reputation;
        reputation.txrep.enabled = own.reputation.txrep.enabled && self.permits_reputation;
        let switches = |learning: &LearningSettings| {
            let (bayes, reputation) = (&learning.bayes, &learning.reputation);
            let of_bayes = [bayes.enabled, bayes.rules_enabled, bayes.autolearn.enabled];
            (of_bayes, reputation.awl.enabled, reputation.txrep.enabled)
        };
        (switches(&learning) != switches(base)).then_some(learning)
    }
}

/// The modification time and size of a file, which identify the version that was read.
type PreferencesStamp = (SystemTime, u64);

/// The preferences of all users, in a folder.
pub(crate) struct UserPreferences {
    folder: PathBuf,
    environment: UserEnvironment,
    read: Mutex<HashMap<String, (PreferencesStamp, Arc<Preferences>)>>,
}

impl UserPreferences {
    pub(crate) fn new(folder: PathBuf, environment: UserEnvironment) -> Self {
        Self {
            folder,
            environment,
            read: Mutex::default(),
        }
    }

    /// A user's preferences; `None` if there are none.
    pub(crate) fn preferences(
        &self,
        user: &str,
        base: &RuleDefinitions,
    ) -> Option<Arc<Preferences>> {
        let path = self.path(user)?;
        let version = version(&path)?;
        let lock = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, preferences)) = lock().get(user)
            && *read == version
        {
            return Some(Arc::clone(preferences));
        }
        let text = std::fs::read(&path).ok()?;
        // Problems are reported by `UserPreferences::problems` only.
        let (preferences, _) = Preferences::read(&text, &path, base, &|_| true, &self.environment);
        let preferences = Arc::new(preferences);
        let mut kept = lock();
        if kept.len() >= USERS_KEPT_MAX {
            kept.clear();
        }
        kept.insert(user.to_owned(), (version, Arc::clone(&preferences)));
        Some(preferences)
    }

    /// The problems of all users' files; `runs` returns whether a rule of the folders runs.
    pub(crate) fn problems(&self, base: &RuleDefinitions, runs: RuleCheck<'_>) -> Vec<RuleProblem> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) => return vec![language::unreadable(&self.folder, &error)],
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        let mut problems = Vec::new();
        for path in names.iter().filter_map(|name| self.path(name)) {
            match std::fs::read(&path) {
                Ok(text) => {
                    let (_, said) = Preferences::read(&text, &path, base, runs, &self.environment);
                    problems.extend(said);
                }
                Err(error) => problems.push(language::unreadable(&path, &error)),
            }
        }
        problems
    }

    /// The file of a user. The name comes from a client, so it must not lead out of the folder.
    fn path(&self, user: &str) -> Option<PathBuf> {
        let is_name = !user.is_empty()
            && user.len() <= NAME_BYTES_MAX
            && !user.starts_with('.')
            && !user.contains(|letter: char| matches!(letter, '/' | '\\') || letter.is_control());
        let path = is_name.then(|| self.folder.join(user))?;
        if path.is_dir() {
            let file = path.join(FILE_NAME);
            return file.is_file().then_some(file);
        }
        path.is_file().then_some(path)
    }
}

fn version(path: &Path) -> Option<PreferencesStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("anna"), "required_score 3").unwrap();
        std::fs::create_dir(folder.path().join("bert")).unwrap();
        std::fs::write(folder.path().join("bert/user_prefs"), "required_score 4").unwrap();
        let language = RuleFileEnvironment {
            locale: "en_US".to_owned(),
            local_only: true,
        };
        let environment = UserEnvironment {
            language,
            permits_bayes: true,
            permits_reputation: true,
        };
        let users = UserPreferences::new(folder.path().join("."), environment);
        let base = RuleDefinitions::default();
        let required = |user: &str| users.preferences(user, &base)?.required;
        assert_eq!(required("anna"), Some(3.0));
        assert_eq!(required("bert"), Some(4.0));
        for name in [
            "",
            ".",
            "..",
            "../anna",
            "carl",
            "an\0na",
            "bert/user_prefs",
        ] {
            assert!(users.preferences(name, &base).is_none(), "{name:?}");
        }
    }
}
