//! Each limit of `[rules.mail]`: rules see the part of a mail within it, not the part beyond it,
//! and a larger setting includes that part.

use std::fmt::Write as _;

use gatepost_mail::MailLimits;
use gatepost_rules::{RuleSet, RulesSettings, ScanContext};

const RULES: &str = "header FIELD X-Last =~ /here/\nbody TEXT /innermost/\n";

/// The rules that hit `message` where `limits` are set.
fn hits(message: &str, limits: MailLimits) -> Vec<String> {
    let settings = RulesSettings {
        mail: limits,
        ..RulesSettings::default()
    };
    let (rules, problems) = RuleSet::from_text("limits.cf", RULES.as_bytes(), &settings);
    assert!(problems.is_empty(), "{problems:?}");
    let report = rules.scan(message.as_bytes(), &ScanContext::default());
    report.hits.iter().map(|hit| hit.name.to_string()).collect()
}

#[test]
fn header_fields_max() {
    let head = "X-Filler: x\n".repeat(9) + "X-Last: here\n";
    let message = format!("{head}\nbody\n");
    let limits = |header_fields_max| MailLimits {
        header_fields_max,
        ..MailLimits::default()
    };
    assert_eq!(hits(&message, limits(10)), ["FIELD"]);
    assert!(hits(&message, limits(9)).is_empty());
}

#[test]
fn nesting_max() {
    let mut message = String::new();
    for level in 0..5 {
        let _ = write!(
            message,
            "Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n"
        );
    }
    message.push_str("Content-Type: text/plain\n\ninnermost\n");
    let limits = |nesting_max| MailLimits {
        nesting_max,
        ..MailLimits::default()
    };
    assert_eq!(hits(&message, limits(5)), ["TEXT"]);
    assert!(hits(&message, limits(4)).is_empty());
}

/// A multipart of `before` parts and one with the word.
fn multipart(before: usize) -> String {
    let filler = "--b\nContent-Type: text/plain\n\nx\n".repeat(before);
    format!(
        "Content-Type: multipart/mixed; boundary=b\n\n{filler}--b\nContent-Type: text/plain\n\n\
         innermost\n--b--\n"
    )
}

#[test]
fn parts_per_multipart_max() {
    let limits = |parts_per_multipart_max| MailLimits {
        parts_per_multipart_max,
        ..MailLimits::default()
    };
    assert_eq!(hits(&multipart(3), limits(4)), ["TEXT"]);
    assert!(hits(&multipart(3), limits(3)).is_empty());
}

#[test]
fn parts_max() {
    let limits = |parts_max| MailLimits {
        parts_max,
        ..MailLimits::default()
    };
    assert_eq!(hits(&multipart(3), limits(5)), ["TEXT"]);
    assert!(hits(&multipart(3), limits(4)).is_empty());
}
