//! Conditional blocks of rule files: `if`, `ifplugin`, `else`, `endif`.

use super::expression::{Expression, Operation, Term};
use super::plugins::{LANGUAGE_VERSION, LoadedPlugins, PERL_VERSION};

/// Whether the condition of an `if` line is true; an error describes the mistake in the line.
pub(super) fn holds(text: &str, plugins: &LoadedPlugins, local_only: bool) -> Result<bool, String> {
    let expression: Expression<()> =
        Expression::parse(text, |term| value(term, plugins, local_only))?;
    Ok(expression.evaluate(|()| 0.0) != 0.0)
}

fn value(
    term: Term<'_>,
    plugins: &LoadedPlugins,
    local_only: bool,
) -> Result<Vec<Operation<()>>, String> {
    let truth = |value: bool| f64::from(u8::from(value));
    let number = match (term.name, term.argument) {
        ("plugin", Some(module)) => truth(plugins.is_loaded(module)),
        ("can" | "has", Some(feature)) => truth(plugins.can(feature)),
        ("version", None) => LANGUAGE_VERSION,
        ("perl_version", None) => PERL_VERSION,
        ("local_tests_only", None) => truth(local_only),
        (name, _) => return Err(format!("{name} cannot be tested by if")),
    };
    Ok(vec![Operation::Number(number)])
}

/// The open `if`s of a file.
#[derive(Debug, Default)]
pub(super) struct OpenConditions {
    /// For each open `if`: whether lines were skipped before it, and its line.
    open: Vec<(bool, u32)>,
    skipping: bool,
}

/// `else` or `endif` without `if`.
pub(super) struct MissingIf;

impl OpenConditions {
    /// Whether the current line is in a branch that is not taken.
    pub(super) fn skipping(&self) -> bool {
        self.skipping
    }

    /// Skips the rest of the file.
    pub(super) fn skip_rest(&mut self) {
        self.skipping = true;
    }

    pub(super) fn enter(&mut self, holds: bool, line: u32) {
        self.open.push((self.skipping, line));
        self.skipping |= !holds;
    }

    pub(super) fn turn(&mut self) -> Result<(), MissingIf> {
        let (outer_skipping, _) = *self.open.last().ok_or(MissingIf)?;
        self.skipping = outer_skipping || !self.skipping;
        Ok(())
    }

    pub(super) fn leave(&mut self) -> Result<(), MissingIf> {
        let (outer_skipping, _) = self.open.pop().ok_or(MissingIf)?;
        self.skipping = outer_skipping;
        Ok(())
    }

    /// The line of the innermost `if` that is still open.
    pub(super) fn unclosed(&self) -> Option<u32> {
        self.open.last().map(|(_, line)| *line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_real_files() {
        let plugins = LoadedPlugins::usual();
        for (text, expected) in [
            ("(version >= 3.004002)", true),
            ("(version < 4.000000)", false),
            ("!plugin(Mail::SpamAssassin::Plugin::DKIM)", false),
            ("plugin ( Mail::SpamAssassin::Plugin::DKIM )", true),
            ("!(!plugin(Mail::SpamAssassin::Plugin::DKIM))", true),
            (
                "!can(Mail::SpamAssassin::Conf::compat_welcomelist_blocklist)",
                true,
            ),
            (
                "can(Mail::SpamAssassin::Conf::feature_edns) && version >= 4",
                true,
            ),
            ("local_tests_only", true),
            ("can(Nothing::at_all)", false),
        ] {
            assert_eq!(holds(text, &plugins, true), Ok(expected), "{text}");
        }
        assert!(holds("version >=", &plugins, true).is_err());
        assert!(holds("moon == 1", &plugins, true).is_err());
    }

    #[test]
    fn branches_nest() {
        let mut conditions = OpenConditions::default();
        conditions.enter(false, 1);
        conditions.enter(true, 2);
        assert!(conditions.skipping());
        assert!(conditions.turn().is_ok());
        assert!(conditions.skipping());
        assert!(conditions.leave().is_ok());
        assert!(conditions.turn().is_ok());
        assert!(!conditions.skipping());
        assert!(conditions.leave().is_ok());
        assert!(conditions.leave().is_err());
    }
}
