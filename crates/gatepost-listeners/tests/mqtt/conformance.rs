//! The tables of `docs/mqtt5-conformance.md` and `docs/mqtt3-conformance.md`, generated from the
//! lists of statements, the conversations and the tests. A statement that has neither a test nor a
//! reason fails, and so does a statement that names a missing test.
//!
//! `WRITE_TABLES=1 cargo test -p gatepost-listeners --test mqtt conformance` writes the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::conversation::{Conversation, conversations};

/// A version of the standard.
struct Standard {
    version: &'static str,
    statements: &'static str,
    file: &'static str,
}

const STANDARDS: [Standard; 2] = [
    Standard {
        version: "5",
        statements: include_str!("../data/mqtt/statements-5.txt"),
        file: "docs/mqtt5-conformance.md",
    },
    Standard {
        version: "3.1.1",
        statements: include_str!("../data/mqtt/statements-3.1.1.txt"),
        file: "docs/mqtt3-conformance.md",
    },
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of all test functions that a statement may name.
fn test_functions() -> BTreeSet<String> {
    let mut functions = BTreeSet::new();
    for file in [
        "crates/gatepost-listeners/tests/mqtt/peers.rs",
        "crates/gatepost-listeners/tests/mqtt/statements/connections.rs",
        "crates/gatepost-listeners/tests/mqtt/statements/publications.rs",
        "crates/gatepost-listeners/tests/mqtt/statements/subscriptions.rs",
        "crates/gatepost-listeners/tests/mqtt/users/enhanced_authentication.rs",
        "crates/gatepost-listeners/tests/mqtt/users/mod.rs",
        "crates/gatepost/tests/websocket.rs",
    ] {
        let text = std::fs::read_to_string(repository().join(file)).expect(file);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line != "#[test]" {
                continue;
            }
            let name = lines
                .next()
                .and_then(|line| line.strip_prefix("fn ")?.split('(').next());
            functions.extend(name.map(str::to_owned));
        }
    }
    functions
}

/// The evidence for a statement.
enum Proof<'a> {
    Shown(Vec<&'a Conversation>, Vec<String>),
    Reason(&'a str),
}

/// Whether a test is named after a statement: `mqtt_3_1_2_24_…` after 3.1.2-24.
fn is_named_after(function: &str, statement: &str) -> bool {
    let prefix = format!("mqtt_{}_", statement.replace(['.', '-'], "_"));
    function
        .strip_prefix(&prefix)
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_alphabetic()))
}

fn proofs<'a>(
    standard: &Standard,
    conversations: &'a [Conversation],
    functions: &BTreeSet<String>,
) -> Result<Vec<(&'static str, Proof<'a>)>, Vec<String>>
where
    'static: 'a,
{
    let mut shown: BTreeMap<&str, Vec<&Conversation>> = BTreeMap::new();
    for conversation in conversations {
        for statement in &conversation.statements {
            shown.entry(statement).or_default().push(conversation);
        }
    }
    let (mut proofs, mut mistakes) = (Vec::new(), Vec::new());
    for line in standard.statements.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (statement, remark) = line.split_once(": ").unwrap_or((line, ""));
        let conversations = shown.remove(statement).unwrap_or_default();
        let mut tests: Vec<String> = Vec::new();
        if standard.version == "5" {
            let named = functions.iter();
            tests.extend(
                named
                    .filter(|name| is_named_after(name, statement))
                    .cloned(),
            );
        }
        if let Some(test) = remark.strip_prefix("test ") {
            if !functions.contains(test) {
                mistakes.push(format!("{statement}: there is no test {test}"));
            }
            if !tests.iter().any(|known| known == test) {
                tests.push(test.to_owned());
            }
        }
        let is_reason = !remark.is_empty() && !remark.starts_with("test ");
        if !conversations.is_empty() || !tests.is_empty() {
            if is_reason {
                mistakes.push(format!(
                    "{statement}: is tested, but has a reason why it cannot be"
                ));
            }
            proofs.push((statement, Proof::Shown(conversations, tests)));
        } else if is_reason {
            proofs.push((statement, Proof::Reason(remark)));
        } else {
            mistakes.push(format!("{statement}: has neither a test nor a reason"));
        }
    }
    mistakes.extend(
        shown
            .keys()
            .map(|statement| format!("{statement}: no such statement")),
    );
    if mistakes.is_empty() {
        Ok(proofs)
    } else {
        Err(mistakes)
    }
}

fn table(standard: &Standard, proofs: &[(&str, Proof<'_>)]) -> String {
    let version = standard.version;
    let reasons = proofs
        .iter()
        .filter(|(_, proof)| matches!(proof, Proof::Reason(_)))
        .count();
    let mut text = format!(
        "# MQTT {version}: the normative statements, one by one\n\n\
         All {} normative statements of the standard (Appendix B) with the evidence that Gatepost \
         satisfies\nthem: {} are tested with raw packets against the running listener, {reasons} \
         cannot be tested on a server,\nfor the given reason. A test generates this table and \
         fails if a statement has neither test nor reason.\n\n\
         Conversations are sequences of packets in `crates/gatepost-listeners/tests/data/mqtt/`; \
         tests that\nneed more than packets are named.\n\n\
         | statement | evidence | test |\n| --- | --- | --- |\n",
        proofs.len(),
        proofs.len() - reasons,
    );
    for (statement, proof) in proofs {
        let (what, places) = match proof {
            Proof::Reason(reason) => ((*reason).to_owned(), "not tested".to_owned()),
            Proof::Shown(conversations, tests) => described(conversations, tests),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| MQTT-{statement} | {what} | {places} |");
    }
    text
}

fn described(conversations: &[&Conversation], tests: &[String]) -> (String, String) {
    let titles: Vec<&str> = conversations.iter().map(|one| one.title).collect();
    let files: BTreeSet<String> = conversations
        .iter()
        .map(|one| format!("`{}`", one.file))
        .collect();
    let named = tests.iter().map(|test| format!("`{test}`"));
    let places: Vec<String> = files.into_iter().chain(named).collect();
    let what = if titles.is_empty() {
        let words = tests.iter().map(|test| {
            let test = test.strip_prefix("mqtt_").unwrap_or(test);
            let words = test.trim_start_matches(|first: char| !first.is_alphabetic());
            words.replace('_', " ")
        });
        words.collect::<Vec<_>>().join("; ")
    } else {
        titles.join("; ")
    };
    (what, places.join(", "))
}

#[test]
fn every_statement_has_a_test_or_a_reason() {
    let functions = test_functions();
    for standard in &STANDARDS {
        let conversations = conversations(standard.version);
        let proofs = proofs(standard, &conversations, &functions)
            .unwrap_or_else(|mistakes| panic!("{}:\n{}", standard.version, mistakes.join("\n")));
        let table = table(standard, &proofs);
        let file = repository().join(standard.file);
        if std::env::var_os("WRITE_TABLES").is_some() {
            std::fs::write(&file, &table).expect("written");
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == table,
            "{} is not current; WRITE_TABLES=1 writes it",
            standard.file
        );
    }
}
