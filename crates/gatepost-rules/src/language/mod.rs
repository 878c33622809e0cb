//! Rule files: reads folders, and processes the directives in them.
//!
//! A folder's files are read in SpamAssassin's order: all plugin lists (`*.pre`) first, then each
//! folder's `*.cf` by name, then preferences. Later lines override earlier ones. Every line either
//! takes effect or becomes a [`RuleProblem`] with the reason; a table ([`directives`]) contains all
//! known directives.

mod condition;
pub(crate) mod definition;
mod directives;
pub(crate) mod expression;
mod line;
mod loader;
pub(crate) mod options;
pub(crate) mod plugins;
mod replace_tags;
mod rule_attributes;
mod rules;
mod updates;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost_learning::LearningSettings;

use crate::configuration::Configuration;
use crate::network::LinkList;
use crate::statistics::RuleStatistics;
use crate::{RuleProblem, Severity};
use definition::{RuleDefinition, RuleExample};
pub(crate) use loader::RuleCheck;
use loader::RuleLoader;
use options::ReportOptions;
use plugins::LoadedPlugins;
use replace_tags::ReplaceTags;
pub(crate) use updates::RuleUpdates;

/// The environment of rule files.
#[derive(Debug, Clone)]
pub(crate) struct RuleFileEnvironment {
    /// The locale of `lang` lines that apply, such as `en_US`.
    pub(crate) locale: String,
    /// Whether `if local_tests_only` is true.
    pub(crate) local_only: bool,
}

impl RuleFileEnvironment {
    /// Whether a line for `language` applies: the locale begins with it.
    fn speaks(&self, language: &[u8]) -> bool {
        self.locale
            .as_bytes()
            .get(..language.len())
            .is_some_and(|beginning| beginning.eq_ignore_ascii_case(language))
    }
}

/// The definitions of some rule folders.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleDefinitions {
    pub(crate) rules: Vec<RuleDefinition>,
    by_name: HashMap<Arc<str>, usize>,
    /// The lists of rules on links, by rule.
    pub(crate) link_lists: HashMap<Arc<str>, LinkList>,
    pub(crate) examples: Vec<RuleExample>,
    pub(crate) replace_tags: ReplaceTags,
    pub(crate) options: ReportOptions,
    /// Rules whose pattern always matches do not run: `ignore_always_matching_regexps`.
    pub(crate) ignores_always_matching: bool,
    pub(crate) configuration: Configuration,
    pub(crate) learning: LearningSettings,
    pub(crate) problems: Vec<RuleProblem>,
    pub(crate) statistics: RuleStatistics,
}

impl RuleDefinitions {
    /// The rule with this name; it is created if necessary.
    pub(crate) fn rule(&mut self, name: &str) -> &mut RuleDefinition {
        let index = self.by_name.get(name).copied().unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            let index = self.rules.len();
            self.by_name.insert(Arc::clone(&name), index);
            self.rules.push(RuleDefinition::new(name));
            index
        });
        &mut self.rules[index]
    }

    /// The rule with this name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Option<&RuleDefinition> {
        self.rules.get(*self.by_name.get(name)?)
    }

    fn known_rule(&self, name: &str) -> Option<Arc<str>> {
        let index = *self.by_name.get(name)?;
        self.rules.get(index).map(|rule| Arc::clone(&rule.name))
    }

    /// The index of the rule with this name.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// Reads folders and files, and then other files; `None` if no path exists.
pub(crate) fn read_paths(
    paths: &[PathBuf],
    others: &[PathBuf],
    language: &RuleFileEnvironment,
    updates: &RuleUpdates<'_>,
) -> Option<RuleDefinitions> {
    let mut definitions = RuleDefinitions::default();
    let mut plugin_lists = Vec::new();
    let mut rule_files = Vec::new();
    let existing: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    if existing.is_empty() {
        return None;
    }
    for path in existing {
        let path = updates.in_force(path);
        let files = if path.is_dir() {
            list(&path, &mut definitions.problems)
        } else {
            vec![path.into_owned()]
        };
        for file in files {
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("pre") => plugin_lists.push(file),
                _ => rule_files.push(file),
            }
        }
    }
    let languages = paths.iter().map(|path| path.join(LANGUAGE_MODELS));
    definitions.configuration.eval.languages.file =
        languages.into_iter().find(|file| file.is_file());
    rule_files.extend(others.iter().cloned());
    let mut texts = Vec::new();
    for file in plugin_lists.into_iter().chain(rule_files) {
        match std::fs::read(&file) {
            Ok(text) => texts.push((file, text)),
            Err(error) => definitions.problems.push(unreadable(&file, &error)),
        }
    }
    read_texts(&mut definitions, &texts, language);
    Some(definitions)
}

/// The file of language models in a rule folder.
const LANGUAGE_MODELS: &str = "languages";

/// Processes texts as if they were files.
pub(crate) fn read_texts(
    definitions: &mut RuleDefinitions,
    texts: &[(PathBuf, Vec<u8>)],
    language: &RuleFileEnvironment,
) {
    let plugins = if texts.iter().any(|(_, text)| names_plugins(text)) {
        LoadedPlugins::default()
    } else {
        LoadedPlugins::usual()
    };
    let mut loader = RuleLoader::new(definitions, plugins, language);
    for (path, text) in texts {
        loader.read(path, text);
    }
}

/// Processes a user's preferences after the folders' directives; they cannot define rules. `runs`
/// returns whether a rule of the folders runs.
pub(crate) fn read_user(
    definitions: &mut RuleDefinitions,
    path: &Path,
    text: &[u8],
    language: &RuleFileEnvironment,
    runs: RuleCheck<'_>,
) {
    RuleLoader::new(definitions, LoadedPlugins::usual(), language)
        .of_a_user(runs)
        .read(path, text);
}

/// Whether a file has a `loadplugin` line.
fn names_plugins(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n')
        .any(|line| line.trim_ascii_start().starts_with(b"loadplugin"))
}

/// The rule files and plugin lists of a folder, by name.
fn list(folder: &Path, problems: &mut Vec<RuleProblem>) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(unreadable(folder, &error));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("cf" | "pre")) && path.is_file()
        })
        .collect();
    files.sort();
    files
}

pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> RuleProblem {
    RuleProblem {
        severity: Severity::Error,
        file: Arc::new(path.to_path_buf()),
        line: 0,
        rule: None,
        cause: "unreadable file",
        reason: format!("it cannot be read: {error}"),
        fix: "correct the path or its permissions".to_owned(),
    }
}
