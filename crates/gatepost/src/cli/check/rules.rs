//! The output of `gatepost check --rules`: first a table of the problems by cause; then the
//! mistakes, with their lines; then the rules that cannot run, by name. Lines that need no action,
//! such as a setting of SpamAssassin's own programs, are only counted, unless `--verbose` is given.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use gatepost_rules::{RuleProblem, RuleStatistics, Severity};

/// Columns that lists of names may take.
const WIDTH: usize = 100;
const INDENT: &str = "    ";

/// The subjects of problems, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ProblemKind {
    Mistake,
    FailedExample,
    CannotRun,
    WithoutEffect,
}

impl ProblemKind {
    const ALL: [Self; 4] = [
        Self::Mistake,
        Self::FailedExample,
        Self::CannotRun,
        Self::WithoutEffect,
    ];

    const fn of(problem: &RuleProblem) -> Self {
        match problem.severity {
            Severity::Error => Self::Mistake,
            _ if problem.rule.is_some() => Self::CannotRun,
            _ => Self::WithoutEffect,
        }
    }

    /// The same for the results of the rules' own examples.
    const fn of_example(problem: &RuleProblem) -> Self {
        match problem.severity {
            Severity::Note => Self::WithoutEffect,
            _ => Self::FailedExample,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Mistake => "Mistakes",
            Self::FailedExample => "Rules that fail their own examples",
            Self::CannotRun => "Rules that cannot run here",
            Self::WithoutEffect => "Lines without effect",
        }
    }

    /// Whether each line is shown by default.
    const fn is_reported_in_full(self) -> bool {
        matches!(self, Self::Mistake | Self::FailedExample)
    }
}

/// Problems of one cause and one kind.
type Causes<'a> = BTreeMap<&'a str, Vec<&'a RuleProblem>>;

/// The overview of a rule folder, ready to be printed.
pub(super) struct Overview<'a> {
    kinds: BTreeMap<ProblemKind, Causes<'a>>,
    statistics: RuleStatistics,
    every_line: bool,
}

impl<'a> Overview<'a> {
    pub(super) fn of(
        problems: &'a [RuleProblem],
        examples: &'a [RuleProblem],
        statistics: RuleStatistics,
        every_line: bool,
    ) -> Self {
        let mut kinds = BTreeMap::<ProblemKind, Causes<'a>>::new();
        let of_problems = problems
            .iter()
            .map(|problem| (ProblemKind::of(problem), problem));
        let of_examples = examples
            .iter()
            .map(|problem| (ProblemKind::of_example(problem), problem));
        for (kind, problem) in of_problems.chain(of_examples) {
            let causes = kinds.entry(kind).or_default();
            causes.entry(problem.cause).or_default().push(problem);
        }
        Self {
            kinds,
            statistics,
            every_line,
        }
    }

    /// The causes of a kind, those with most problems first.
    fn causes(&self, kind: ProblemKind) -> Vec<(&'a str, &[&'a RuleProblem])> {
        let causes = self.kinds.get(&kind).into_iter().flatten();
        let mut causes: Vec<_> = causes
            .map(|(&cause, problems)| (cause, problems.as_slice()))
            .collect();
        causes.sort_by_key(|(_, problems)| std::cmp::Reverse(problems.len()));
        causes
    }

    /// A line for each cause, with its number.
    fn summary(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleStatistics {
            rules,
            files,
            unneeded,
            ..
        } = self.statistics;
        let from = if files == 1 { "file" } else { "files" };
        writeln!(out, "{rules:>6}  rules run, from {files} {from}")?;
        if unneeded > 0 {
            writeln!(
                out,
                "{unneeded:>6}  rules not needed: of score 0, and no running rule refers to them"
            )?;
        }
        for kind in ProblemKind::ALL {
            let causes = self.causes(kind);
            let total: usize = causes.iter().map(|(_, problems)| problems.len()).sum();
            if total == 0 {
                continue;
            }
            writeln!(out, "{total:>6}  {}", in_a_row(kind.title()))?;
            for (cause, problems) in causes {
                writeln!(out, "{:>12}  {cause}", problems.len())?;
            }
        }
        Ok(())
    }

    fn details(&self, kind: ProblemKind, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = self.causes(kind);
        if causes.is_empty() || kind == ProblemKind::WithoutEffect && !self.every_line {
            return Ok(());
        }
        writeln!(out, "\n{}", kind.title())?;
        for (cause, problems) in causes {
            if self.every_line || kind.is_reported_in_full() {
                writeln!(out, "  {cause} ({})", problems.len())?;
                for problem in problems {
                    writeln!(out, "{INDENT}{problem}")?;
                }
            } else {
                names_by_reason(cause, problems, out)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Overview<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary(out)?;
        for kind in ProblemKind::ALL {
            self.details(kind, out)?;
        }
        if !self.every_line && !self.kinds.is_empty() {
            writeln!(out, "\n--verbose shows the file and line of each.")?;
        }
        Ok(())
    }
}

/// The rules of one cause, grouped by the exact reason.
fn names_by_reason(
    cause: &str,
    problems: &[&RuleProblem],
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut reasons = BTreeMap::<(&str, &str), Vec<&str>>::new();
    for problem in problems {
        let names = reasons.entry((&problem.reason, &problem.fix)).or_default();
        names.extend(problem.rule.as_deref());
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for ((reason, fix), mut names) in reasons {
        names.sort_unstable();
        names.dedup();
        let fix = match fix {
            "" => String::new(),
            fix => format!(" ({fix})"),
        };
        writeln!(out, "  {cause}: {reason}{fix}")?;
        out.write_str(&wrapped(&names))?;
    }
    Ok(())
}

/// Names in lines of at most [`WIDTH`] columns.
fn wrapped(names: &[&str]) -> String {
    let mut text = String::new();
    let mut column = WIDTH;
    for name in names {
        if column + 1 + name.len() > WIDTH {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(INDENT);
            column = INDENT.len();
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(name);
        column += name.len();
    }
    let _ = writeln!(text);
    text
}

/// A title within a sentence.
fn in_a_row(title: &str) -> String {
    let mut letters = title.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_rules::{RuleSet, RulesSettings};

    const RULES: &[u8] = b"bdy MISSPELT /x/\n\
        body BAD /(/\n\
        lock_method flock\n\
        lock_method win32\n\
        report_charset utf-8\n\
        header LISTED eval:check_rbl('a', 'b.example.')\n\
        tflags LISTED net\n\
        header LISTED_TOO eval:check_rbl('a', 'c.example.')\n\
        tflags LISTED_TOO net\n\
        body GREETING /hello/\n\
        score GREETING 1\n\
        test GREETING ok good day\n\
        body ASLEEP /night/\n\
        score ASLEEP 0\n";

    fn overview(every_line: bool) -> String {
        let (rules, problems) = RuleSet::from_text("site.cf", RULES, &RulesSettings::default());
        let examples = rules.self_tests();
        Overview::of(&problems, &examples, rules.statistics(), every_line).to_string()
    }

    #[test]
    fn mistakes_come_first_and_lines_without_effect_are_counted() {
        let expected = "     1  rules run, from 1 file\n\
            \x20    1  rules not needed: of score 0, and no running rule refers to them\n\
            \x20    2  mistakes\n\
            \x20          1  bad pattern\n\
            \x20          1  unknown directive\n\
            \x20    1  rules that fail their own examples\n\
            \x20          1  self-test failed\n\
            \x20    2  rules that cannot run here\n\
            \x20          2  network tests are off\n\
            \x20    3  lines without effect\n\
            \x20          3  belongs to SpamAssassin's programs\n";
        let text = overview(false);
        assert!(text.starts_with(expected), "{text}");
        let named = "Rules that cannot run here\n  \
            network tests are off: it queries the network (rules.network = true enables it)\n    \
            LISTED LISTED_TOO\n";
        assert!(text.contains(named), "{text}");
        assert!(text.contains("    site.cf:1: error: there is no directive bdy"));
        assert!(!text.contains("lock_method") && !text.contains("site.cf:3"));
        let mistakes = text.find("\nMistakes\n").expect("mistakes are listed");
        assert!(mistakes < text.find(named).expect("is there"), "{text}");
    }

    #[test]
    fn every_line_is_shown_on_request() {
        let text = overview(true);
        for line in [1, 2, 3, 4, 5, 6, 8, 12] {
            assert!(
                text.contains(&format!("site.cf:{line}: ")),
                "{line}: {text}"
            );
        }
        assert!(!text.contains("--verbose"));
    }

    #[test]
    fn names_stay_within_the_width() {
        let names: Vec<String> = (0..100).map(|number| format!("__RULE_{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = wrapped(&names);
        assert!(text.lines().all(|line| line.len() <= WIDTH));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), names);
    }
}
