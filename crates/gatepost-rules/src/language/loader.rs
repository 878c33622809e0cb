//! Reads files line by line and passes each line to the handler of its directive.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost_mail::Directive;

use super::condition::{self, OpenConditions};
use super::definition::SourceLine;
use super::directives;
use super::line::{LineProblem, LoadedLines, RuleLine};
use super::plugins::{LANGUAGE_VERSION_TEXT, LoadedPlugins};
use super::{RuleDefinitions, RuleFileEnvironment};
use crate::{RuleProblem, Severity};

/// The deepest chain of included files; a longer one is treated as a cycle.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Whether a rule runs, by its name.
pub(crate) type RuleCheck<'r> = &'r dyn Fn(&str) -> bool;

/// Reads the files of some rule folders.
pub(super) struct RuleLoader<'d> {
    loaded: LoadedLines<'d>,
    language: &'d RuleFileEnvironment,
    /// The lines are a user's preferences, which may not define rules.
    user: Option<RuleCheck<'d>>,
    /// The files being read, outermost first.
    files: Vec<Arc<PathBuf>>,
}

impl<'d> RuleLoader<'d> {
    pub(super) fn new(
        definitions: &'d mut RuleDefinitions,
        plugins: LoadedPlugins,
        language: &'d RuleFileEnvironment,
    ) -> Self {
        Self {
            loaded: LoadedLines {
                definitions,
                plugins,
            },
            language,
            user: None,
            files: Vec::new(),
        }
    }

    /// The following lines are a user's preferences; `runs` is of the rule folders.
    pub(super) fn of_a_user(mut self, runs: RuleCheck<'d>) -> Self {
        self.user = Some(runs);
        self
    }

    /// Reads the text of a file. Its end closes all open `if`s.
    pub(super) fn read(&mut self, path: &Path, text: &[u8]) {
        let file = Arc::new(path.to_path_buf());
        self.files.push(Arc::clone(&file));
        self.loaded.definitions.statistics.files += 1;
        self.loaded.definitions.statistics.bytes += text.len();
        let mut conditions = OpenConditions::default();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let source = SourceLine {
                file: Arc::clone(&file),
                line: index as u32 + 1,
            };
            self.line(&source, line, &mut conditions);
        }
        if let Some(line) = conditions.unclosed() {
            let problem = LineProblem::invalid("the if is never closed", "add endif");
            self.report(&SourceLine { file, line }, problem, None);
        }
        self.files.pop();
    }

    fn report(&mut self, source: &SourceLine, problem: LineProblem, rule: Option<Arc<str>>) {
        self.loaded.definitions.problems.push(RuleProblem {
            severity: problem.severity,
            file: Arc::clone(&source.file),
            line: source.line,
            rule,
            cause: problem.cause,
            reason: problem.reason,
            fix: problem.fix,
        });
    }

    fn line(&mut self, source: &SourceLine, raw: &[u8], conditions: &mut OpenConditions) {
        if let Some(version) = rules_version(raw) {
            self.loaded.definitions.options.rules_versions.push(version);
        }
        let line = without_comment(raw);
        let mut line = line.trim_ascii();
        if let Some((language, rest)) = in_other_language(line) {
            if !self.language.speaks(language) {
                if !conditions.skipping() {
                    let name = String::from_utf8_lossy(language).into_owned();
                    let reason = format!("it is for readers of {name}");
                    let problem = LineProblem::note("another language", reason);
                    self.report(source, problem, None);
                }
                return;
            }
            line = rest;
        }
        if line.is_empty() {
            return;
        }
        let end = line.iter().position(u8::is_ascii_whitespace);
        let (word, value) = line.split_at(end.unwrap_or(line.len()));
        let directive = String::from_utf8_lossy(word).to_ascii_lowercase();
        let line = RuleLine {
            source: source.clone(),
            directive: &directive.replace('-', "_"),
            value: value.trim_ascii(),
        };
        let outcome = match self.condition(&line, conditions) {
            Some(outcome) => outcome,
            None if conditions.skipping() => Ok(()),
            None => self.apply(&line, conditions),
        };
        if let Err(problem) = outcome {
            let rule = (problem.severity == Severity::Error)
                .then(|| self.loaded.definitions.known_rule(line.first_word()))
                .flatten();
            self.report(source, problem, rule);
        }
    }

    /// `None` if the line is not a condition.
    fn condition(
        &mut self,
        line: &RuleLine<'_>,
        conditions: &mut OpenConditions,
    ) -> Option<Result<(), LineProblem>> {
        let without_if = |_| LineProblem::invalid("there is no if before it", "remove it");
        match line.directive {
            "if" | "ifplugin" => {
                let text = String::from_utf8_lossy(line.value);
                let text = match line.directive {
                    "ifplugin" => Cow::Owned(format!("plugin({text})")),
                    _ => text,
                };
                let holds = condition::holds(&text, &self.loaded.plugins, self.language.local_only);
                conditions.enter(*holds.as_ref().unwrap_or(&false), line.source.line);
                Some(holds.map(|_| ()).map_err(|reason| {
                    LineProblem::invalid(reason, "the lines up to its endif are skipped")
                }))
            }
            "else" => Some(conditions.turn().map_err(without_if)),
            "endif" => Some(conditions.leave().map_err(without_if)),
            _ => None,
        }
    }

    fn apply(
        &mut self,
        line: &RuleLine<'_>,
        conditions: &mut OpenConditions,
    ) -> Result<(), LineProblem> {
        let is_for_folders = directives::is_administrators(line.directive)
            || directives::is_of_all_learning(line.directive);
        if self.user.is_some() && is_for_folders {
            return Err(LineProblem::invalid(
                format!("a user's preferences cannot hold {}", line.directive),
                "put it into the rule folders",
            ));
        }
        match line.directive {
            "include" => return self.include(line),
            "require_version" => return require_version(line, conditions),
            _ => {}
        }
        if let Some(handler) = directives::handler(line.directive) {
            handler(&mut self.loaded, line)?;
            return match self.user {
                Some(runs) if line.directive == "score" => self.check_score(line, runs),
                _ => Ok(()),
            };
        }
        let value = String::from_utf8_lossy(line.value);
        let definitions = &mut *self.loaded.definitions;
        let taken = [
            definitions.configuration.directive(line.directive, &value),
            definitions.learning.bayes.directive(line.directive, &value),
            definitions
                .learning
                .reputation
                .directive(line.directive, &value),
        ];
        let taken = taken
            .into_iter()
            .find(|taken| *taken != Directive::Unknown)
            .unwrap_or(Directive::Unknown);
        match taken {
            Directive::Taken => return Ok(()),
            Directive::Invalid(reason) => return Err(LineProblem::invalid(reason, "")),
            Directive::Unknown => {}
        }
        Err(match directives::without_effect(line.directive) {
            Some(no_effect) => LineProblem::note(no_effect.cause, no_effect.reason),
            None => LineProblem {
                severity: Severity::Error,
                cause: "unknown directive",
                reason: if revokes_trust(line.directive) {
                    format!(
                        "there is no directive {}, so the trust that it would revoke remains",
                        line.directive
                    )
                } else {
                    format!("there is no directive {}", line.directive)
                },
                fix: "look for a mistyped word".to_owned(),
            },
        })
    }

    /// A user's score has no effect on a rule that does not run: rules are compiled once for all.
    fn check_score(&self, line: &RuleLine<'_>, runs: RuleCheck<'_>) -> Result<(), LineProblem> {
        let name = line.first_word();
        let rule = self.loaded.definitions.find(name);
        let is_off = rule.is_none_or(|rule| (0..4).all(|set| rule.score(set) == 0.0));
        if is_off || runs(name) {
            return Ok(());
        }
        Err(LineProblem {
            severity: Severity::Warning,
            cause: "score of a rule that does not run",
            reason: format!("{name} does not run, so its score has no effect"),
            fix: "give it a score in the rule folders".to_owned(),
        })
    }

    fn include(&mut self, line: &RuleLine<'_>) -> Result<(), LineProblem> {
        let name = line.value_text()?;
        if self.files.len() >= INCLUDE_DEPTH_MAX {
            return Err(LineProblem::invalid(
                "files include each other too deeply",
                "look for a file that includes itself",
            ));
        }
        let folder = line.source.file.parent().unwrap_or(Path::new("."));
        let path = folder.join(name);
        let text = std::fs::read(&path).map_err(|error| LineProblem {
            severity: Severity::Error,
            cause: "unreadable file",
            reason: format!("{} cannot be read: {error}", path.display()),
            fix: "correct the path or its permissions".to_owned(),
        })?;
        self.read(&path, &text);
        Ok(())
    }
}

fn require_version(
    line: &RuleLine<'_>,
    conditions: &mut OpenConditions,
) -> Result<(), LineProblem> {
    let version = line.value_text()?;
    // Packages write their version with or without trailing zeros.
    if matches!(
        version.as_str(),
        "@@VERSION@@" | LANGUAGE_VERSION_TEXT | "4.000001"
    ) {
        return Ok(());
    }
    conditions.skip_rest();
    Err(LineProblem {
        severity: Severity::Error,
        cause: "another version",
        reason: format!(
            "the file is for version {version}; this engine speaks {LANGUAGE_VERSION_TEXT}"
        ),
        fix: "the rest of the file is skipped".to_owned(),
    })
}

/// The version of a file of rules, which `sa-update` writes into it as a comment.
fn rules_version(line: &[u8]) -> Option<String> {
    let version = line.strip_prefix(b"# UPDATE version ")?.trim_ascii_end();
    let is_number = !version.is_empty() && version.iter().all(u8::is_ascii_digit);
    is_number.then(|| String::from_utf8_lossy(version).into_owned())
}

/// `lang xx_YY rest`.
fn in_other_language(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"lang")?;
    if !rest.first()?.is_ascii_whitespace() {
        return None;
    }
    let rest = rest.trim_ascii_start();
    let end = rest.iter().position(u8::is_ascii_whitespace)?;
    let (language, rest) = rest.split_at(end);
    Some((language, rest.trim_ascii_start()))
}

/// The line up to its comment; `\#` is not a comment but a `#`.
fn without_comment(line: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'#', line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut kept: Vec<u8> = Vec::with_capacity(line.len());
    for &byte in line {
        match (byte, kept.last()) {
            (b'#', Some(b'\\')) => {
                kept.pop();
                kept.push(b'#');
            }
            (b'#', _) => break,
            _ => kept.push(byte),
        }
    }
    Cow::Owned(kept)
}

/// Whether a directive, by its name, removes entries from a list of trusted senders, hosts or
/// networks, or adds them to a list of untrusted ones.
fn revokes_trust(name: &str) -> bool {
    let removes = ["un", "clear_", "delist_", "remove_"];
    let distrusts = ["block", "black", "untrust", "distrust"];
    let is_of_trust = ["welcome", "white", "trust", "internal", "msa"]
        .iter()
        .any(|word| name.contains(word));
    (is_of_trust && removes.iter().any(|start| name.starts_with(start)))
        || distrusts.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_a_line_unless_escaped() {
        assert_eq!(&*without_comment(b"body A /x/ # why"), b"body A /x/ ");
        assert_eq!(&*without_comment(br"body A /\#x/"), b"body A /#x/");
        assert_eq!(&*without_comment(br"a \#b #c"), b"a #b ");
    }
}
