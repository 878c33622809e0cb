//! Rules that query the network, against a DNS server of the test.

#[path = "../oracle/comparison.rs"]
mod comparison;

mod links;
mod lists;
mod mails;
mod oracle;
mod senders;
mod server;
mod zone_file;

use gatepost_rules::{RuleSet, ScanContext};

/// The names of the rules that hit a message, sorted.
fn hits(rules: &RuleSet, message: &str) -> Vec<String> {
    let report = rules.scan(message.as_bytes(), &ScanContext::default());
    let mut names: Vec<String> = report.hits.iter().map(|hit| hit.name.to_string()).collect();
    names.sort();
    names
}
