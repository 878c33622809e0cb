//! Reports and header fields as SpamAssassin writes them, tag for tag.
//!
//! `tests/data/reports/expected.txt` contains SpamAssassin's output for the messages beside it. If
//! SpamAssassin is installed, it runs again and its output must be the same;
//! `GATEPOST_ORACLE=renew` writes the file again.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatepost_learning::Learning;
use gatepost_rules::{RuleSet, RulesSettings, ScanContext};

const MESSAGES: [&str; 4] = ["ham", "long", "plain", "spam"];
const PLUGINS: [&str; 5] = [
    "Check",
    "HeaderEval",
    "BodyEval",
    "Bayes",
    "AutoLearnThreshold",
];

fn data(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reports");
    folder.join(name)
}

/// A folder with the rules and the list of plugins.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = PLUGINS.map(|name| format!("loadplugin Mail::SpamAssassin::Plugin::{name}\n"));
    std::fs::write(folder.path().join("init.pre"), plugins.concat()).expect("written");
    let rules = std::fs::read_to_string(data("rules.cf")).expect("the rules");
    let rules = format!("{rules}report_safe 0\n");
    std::fs::write(folder.path().join("rules.cf"), rules).expect("written");
    folder
}

/// Gatepost's output.
fn ours() -> String {
    let folder = folder();
    let mut all = String::new();
    for name in MESSAGES {
        let settings = RulesSettings::default();
        let (rules, problems) = RuleSet::load(&[folder.path().to_path_buf()], &settings);
        assert!(problems.is_empty(), "{problems:?}");
        let rules = rules.with_learning(Learning::in_memory());
        let message = std::fs::read(data(&format!("{name}.eml"))).expect("a message");
        let report = rules.scan(&message, &ScanContext::default());
        all.push_str("==== fields\n");
        for (name, value) in report.header_fields() {
            if name != "X-Spam-Checker-Version" {
                let _ = writeln!(all, "{name}: {value}");
            }
        }
        let _ = write!(all, "==== report\n{}==== end\n", report.text());
    }
    all
}

/// SpamAssassin's output; `None` where it is not installed.
fn theirs() -> Option<String> {
    let known = Command::new("perl")
        .args(["-MMail::SpamAssassin", "-e1"])
        .status();
    if !known.is_ok_and(|status| status.success()) {
        return None;
    }
    let folder = folder();
    let state = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/reports.pl");
    let mut child = Command::new("perl")
        .arg(script)
        .env("RULES", folder.path().join("rules.cf"))
        .env("SITE", folder.path().join("init.pre"))
        .env("STATE", state.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("perl runs");
    let mut input = child.stdin.take().expect("is piped");
    for name in MESSAGES {
        let path = data(&format!("{name}.eml"));
        writeln!(input, "{}", path.display()).expect("SpamAssassin reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("SpamAssassin ends");
    assert!(output.status.success(), "SpamAssassin failed");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// The lines in which two texts differ.
fn difference(one: &str, other: &str) -> String {
    let lines = one.lines().zip(other.lines()).enumerate();
    let differing = lines.filter(|(_, (one, other))| one != other);
    let mut text = String::new();
    for (number, (one, other)) in differing.take(40) {
        let _ = writeln!(text, "{number}: {one:?}\n    {other:?}");
    }
    text
}

#[test]
fn reports_are_written_as_spamassassin_writes_them() {
    let path = data("expected.txt");
    let theirs = theirs();
    if std::env::var_os("GATEPOST_ORACLE").is_some_and(|how| how == "renew") {
        let text = theirs.as_deref().expect("SpamAssassin is installed");
        std::fs::write(&path, text).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("what SpamAssassin wrote");
    if let Some(theirs) = theirs {
        assert_eq!(
            theirs,
            expected,
            "SpamAssassin: {}",
            difference(&theirs, &expected)
        );
    }
    let ours = ours();
    assert!(
        ours == expected,
        "Gatepost: {}",
        difference(&ours, &expected)
    );
}
