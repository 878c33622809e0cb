//! Every directive of the installed SpamAssassin is known, by its old names too: an unknown one
//! that narrows trust would leave the trust in place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gatepost_rules::{RuleSet, RulesSettings};

/// Where Debian's package keeps the modules that declare directives.
const MODULES: &str = "/usr/share/perl5/Mail/SpamAssassin";

/// Declared by SpamAssassin for its own use; no line of a rule file has such a name.
const INTERNAL: [&str; 1] = ["uri_host_lists"];

/// The texts between quotes in a part of a Perl program.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\'', '"']).skip(1).step_by(2)
}

/// The names that a module declares by `setting => 'NAME'` and `aliases => ['NAME', …]`.
fn declared(module: &str) -> BTreeSet<String> {
    let code = module
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let mut names = BTreeSet::new();
    for line in code {
        if let Some((_, value)) = line.split_once("setting =>") {
            names.extend(quoted(value).next().map(str::to_owned));
        }
        if let Some((_, value)) = line.split_once("aliases =>") {
            let list = value.split(']').next().unwrap_or_default();
            names.extend(quoted(list).map(str::to_owned));
        }
    }
    names
}

fn modules(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("SpamAssassin is installed; tests/install-peers installs it");
    let paths = entries.map(|entry| entry.expect("an entry is readable").path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "pm"))
        .collect()
}

#[test]
fn every_directive_of_spamassassin_is_known() {
    let root = Path::new(MODULES);
    let mut names = BTreeSet::new();
    for module in modules(root)
        .into_iter()
        .chain(modules(&root.join("Plugin")))
    {
        let text = std::fs::read(&module).expect("a module is readable");
        names.extend(declared(&String::from_utf8_lossy(&text)));
    }
    names.retain(|name| !INTERNAL.contains(&name.as_str()));
    assert!(names.len() > 300, "{}", names.len());
    let settings = RulesSettings::default();
    // Each in a file of its own: some of them end a file.
    let unknown: Vec<&String> = names
        .iter()
        .filter(|name| {
            let line = format!("{name} 1");
            let (_, problems) = RuleSet::from_text("one.cf", line.as_bytes(), &settings);
            let mut causes = problems.iter().map(|problem| problem.cause);
            causes.any(|cause| cause == "unknown directive")
        })
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// An unknown directive is an error, and one that would revoke trust says what remains.
#[test]
fn an_unknown_directive_that_revokes_trust_is_an_error() {
    for (line, expected) in [
        ("unwelcomelist_from_rvcd a@example.com", true),
        ("clear_trusted_netwroks", true),
        ("blocklist_fron b@example.com", true),
        ("welcomelist_fron a@example.com", false),
    ] {
        let settings = RulesSettings::default();
        let (_, problems) = RuleSet::from_text("one.cf", line.as_bytes(), &settings);
        let [problem] = &problems[..] else {
            panic!("{line}: {problems:?}");
        };
        assert_eq!(problem.severity, gatepost_rules::Severity::Error, "{line}");
        assert_eq!(problem.reason.contains("trust"), expected, "{problem}");
    }
}
