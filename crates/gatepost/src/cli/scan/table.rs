//! A message's result for a person at a terminal: a line with verdict, score and name, and below
//! it the rules that hit, wrapped at the width of the window. A program reads lines of a fixed
//! form instead (`output.rs`), so this form is used on a terminal only.

use std::io::{self, IsTerminal, Write};

use gatepost_rules::Report;

use crate::cli::plain::plain;

/// The width assumed if the terminal does not report its own.
const WIDTH_DEFAULT: usize = 80;
/// Columns before the names of rules: below the name of the message.
const INDENT: usize = 18;

const SPAM: &str = "\x1b[1;31m";
const HAM: &str = "\x1b[32m";
const FAINT: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// The terminal of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TerminalStyle {
    width: usize,
    has_colour: bool,
}

impl TerminalStyle {
    /// `None` if standard output is a file or a pipe. `NO_COLOR` and a dumb terminal get no
    /// colours.
    pub(super) fn of_stdout() -> Option<Self> {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(&stdout);
        let width = size.map_or(0, |size| usize::from(size.ws_col));
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Some(Self {
            width: if width == 0 { WIDTH_DEFAULT } else { width },
            has_colour: !is_set("NO_COLOR") && !is_dumb,
        })
    }

    /// Prints the result of the message with this name.
    pub(super) fn print(self, out: &mut impl Write, name: &str, report: &Report) -> io::Result<()> {
        let (verdict, colour) = if report.is_spam() {
            ("spam", SPAM)
        } else {
            ("ok", HAM)
        };
        let (score, required) = (report.score, report.required);
        let verdict = self.coloured(colour, &format!("{verdict:4}"));
        let name = plain(name);
        writeln!(out, "{verdict} {score:6.1}/{required:<5.1} {name}")?;
        let symbols = report.symbols();
        for line in wrapped(&symbols, self.width.saturating_sub(INDENT)) {
            writeln!(out, "{:INDENT$}{}", "", self.coloured(FAINT, &line))?;
        }
        Ok(())
    }

    fn coloured(self, colour: &str, text: &str) -> String {
        if self.has_colour {
            format!("{colour}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }
}

/// Names that a comma separates, in lines of at most this width where a name permits it.
fn wrapped(names: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.len() + ", ".len() + name.len() < width => {
                line.push_str(", ");
                line.push_str(name);
            }
            Some(line) => {
                line.push(',');
                lines.push(name.to_owned());
            }
            None => lines.push(name.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_wrapped_between_each_other() {
        assert_eq!(wrapped("A,BB,CCC", 80), ["A, BB, CCC"]);
        assert_eq!(wrapped("A,BB,CCC", 8), ["A, BB,", "CCC"]);
        assert_eq!(wrapped("LONGER_THAN_ALL,B", 8), ["LONGER_THAN_ALL,", "B"]);
        assert!(wrapped("", 8).is_empty());
    }

    #[test]
    fn a_result_has_colours_only_where_they_are_wanted() {
        let report = Report::default();
        let printed = |has_colour| {
            let style = TerminalStyle {
                width: 80,
                has_colour,
            };
            let mut out = Vec::new();
            style
                .print(&mut out, "a\u{1b}[2J.eml", &report)
                .expect("written");
            String::from_utf8(out).expect("UTF-8")
        };
        assert!(!printed(false).contains('\u{1b}'), "{:?}", printed(false));
        assert_eq!(printed(true).matches('\u{1b}').count(), 2);
        assert!(printed(false).contains("a\u{fffd}[2J.eml"));
    }
}
