//! Every directive of the installed SpamAssassin is supported, by its old names too: an unsupported
//! directive that restricts trust would leave the trust unrestricted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gatepost_rules::{RuleSet, RulesSettings, Severity};

/// The folder of the modules that declare directives in Debian's package.
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

/// An unknown directive is an error, and the error of one that would revoke trust names the trust
/// that remains.
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
        assert_eq!(problem.severity, Severity::Error, "{line}");
        assert_eq!(problem.reason.contains("trust"), expected, "{problem}");
    }
}

/// Settings that cannot work are warned of; the same without the mistake give no warning.
#[test]
fn settings_that_contradict_each_other_are_warned_of() {
    const AWL: &str = "loadplugin Mail::SpamAssassin::Plugin::AWL";
    const TXREP: &str = "loadplugin Mail::SpamAssassin::Plugin::TxRep\nuse_txrep 1";
    let outside = "a network is not trusted";
    let txrep = "TxRep does not run";
    let cases = [
        // Internal networks are trusted too.
        ("trusted_networks 10/8\ninternal_networks 10.1/16", None),
        (
            "trusted_networks 10/8\ninternal_networks 10.1/16 192.0.2/24",
            Some(outside),
        ),
        (
            "internal_networks 192.0.2.7\ntrusted_networks 192.0.2.8",
            Some(outside),
        ),
        (
            "trusted_networks !192.0.2.7 192.0.2/24\ninternal_networks 192.0.2.7",
            Some(outside),
        ),
        ("trusted_networks 192.0.2.7\nmsa_networks 192.0.2.7", None),
        (
            "trusted_networks 192.0.2.8\nmsa_networks 192.0.2.7",
            Some(outside),
        ),
        ("internal_networks 192.0.2/24", None),
        ("trusted_networks 192.0.2/24", None),
        // Of the two that keep averages of senders, AWL runs.
        (&format!("{AWL}\n{TXREP}"), Some(txrep)),
        (&format!("{AWL}\n{TXREP}\nuse_auto_welcomelist 0"), None),
        (&format!("{AWL}\n{TXREP}\nuse_auto_whitelist 0"), None),
        (TXREP, None),
        (AWL, None),
    ];
    for (text, expected) in cases {
        let settings = RulesSettings::default();
        let (_, problems) = RuleSet::from_text("one.cf", text.as_bytes(), &settings);
        let causes: Vec<_> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Warning)
            .map(|problem| problem.cause)
            .collect();
        assert_eq!(causes, Vec::from_iter(expected), "{text}: {problems:?}");
    }
}

/// Rules whose pattern always matches run, unless they are to be left out.
#[test]
fn patterns_that_always_match_are_left_out_where_that_is_wanted() {
    let patterns = [
        "//", "/a||b/", "/|a/", "/a|/", "/a\\|/", "/a\\||b/", "/a|b/", "/()/", "m{a|}i",
    ];
    let always = [true, true, true, true, false, false, false, false, true];
    for (pattern, is_always) in patterns.into_iter().zip(always) {
        for kind in ["body", "rawbody", "full", "uri", "header"] {
            let of = if kind == "header" { "Subject =~ " } else { "" };
            let rule = format!("{kind} ONE {of}{pattern}\n");
            for (setting, is_left_out) in [
                ("", false),
                ("ignore_always_matching_regexps 0\n", false),
                ("ignore_always_matching_regexps 1\n", is_always),
            ] {
                let text = format!("{setting}{rule}");
                let settings = RulesSettings::default();
                let (_, problems) = RuleSet::from_text("one.cf", text.as_bytes(), &settings);
                let mut causes = problems.iter().map(|problem| problem.cause);
                let is_said = causes.any(|cause| cause == "always matching");
                assert_eq!(is_said, is_left_out, "{text}: {problems:?}");
            }
        }
    }
}
