//! Rules: each setting that the user guide names in `inline code` exists.

use std::collections::BTreeSet;

use crate::files::{below, read};

/// Names of files that look like settings of these sections.
const FILES: [&str; 2] = ["access.log", "audit.log"];

/// All settings and tables, without quotes and the marks of lists: `sink.mail.to`.
fn settings() -> BTreeSet<String> {
    let plain = |key: &str| key.replace("[]", "").replace('"', "");
    let defaults = read("docs/defaults.toml");
    let descriptions = read("crates/gatepost/src/config/descriptions.toml");
    let keys = defaults
        .lines()
        .chain(descriptions.lines())
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(" = ")?.0.trim_matches('\'')));
    let mut all = BTreeSet::new();
    for key in keys {
        let key = plain(key);
        for (dot, _) in key.match_indices('.') {
            all.insert(key[..dot].to_owned());
        }
        all.insert(key);
    }
    all
}

/// The setting that inline code names, if it has the form of one with a section: `rules.paths`,
/// `log.format = "json"`.
fn named_setting(code: &str) -> Option<String> {
    let name = code.split_once(" = ").map_or(code, |(name, _)| name);
    let name = name.trim_matches(['[', ']']).replace('"', "");
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_./".contains(c);
    let has_form = name.contains('.') && !name.starts_with('.') && name.chars().all(is_plain);
    (has_form && !FILES.contains(&&*name)).then_some(name)
}

#[test]
fn settings_named_in_the_guide_exist() {
    let settings = settings();
    let sections: BTreeSet<&str> = settings
        .iter()
        .filter_map(|key| Some(key.split_once('.')?.0))
        .collect();
    let mut unknown = Vec::new();
    let mut count = 0;
    for page in below("docs", "md") {
        for code in read(&page).split('`').skip(1).step_by(2) {
            let Some(name) = named_setting(code) else {
                continue;
            };
            let section = name.split('.').next().unwrap_or_default();
            // Words of other languages have dots too: `message.size`, `dns.a`.
            if !sections.contains(section) {
                continue;
            }
            count += 1;
            if !settings.contains(name.trim_end_matches('.')) {
                unknown.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(count > 100, "only {count} settings were found");
    assert!(
        unknown.is_empty(),
        "no such setting:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn settings_are_recognised() {
    for (code, expected) in [
        ("rules.paths", Some("rules.paths")),
        ("log.format = \"json\"", Some("log.format")),
        ("[[smarthost.dkim]]", Some("smarthost.dkim")),
        (
            "procedure.\"/spamcheck\".tag",
            Some("procedure./spamcheck.tag"),
        ),
        ("broker.slow_subscriber_of_user.NAME", None),
        ("access.log", None),
        ("tls", None),
        ("store.get(key)", None),
    ] {
        assert_eq!(named_setting(code).as_deref(), expected, "{code}");
    }
}
