//! Gatepost's rules compared with SpamAssassin itself, rule by rule.
//!
//! `tests/data/oracle/hits.tsv` contains the hits of SpamAssassin for every message of the public
//! corpus and, if they are installed, of other projects' test messages, with Debian's rules and
//! local tests only. Each run scans a sample again with the installed SpamAssassin, whose hits must
//! be those of the file, and compares Gatepost's hits with both. Known differences are listed in
//! `docs/notes/rules-differences.md` with their cause. Any other difference fails the test, and so
//! does a listed difference that no longer occurs.
//!
//! After a change of the installed rules the file is outdated: then only the sample counts, until
//! `GATEPOST_ORACLE=renew` writes the whole file again (some minutes). Unoptimised builds compare
//! the sample only, unless `GATEPOST_ORACLE=whole` is set.

#[path = "oracle/comparison.rs"]
mod comparison;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gatepost_rules::{RuleSet, RulesSettings};
use gatepost_settings::Period;
use sha1::{Digest, Sha1};

use comparison::{Demands, Judgements, SpamAssassin, compare, corpus, ours, parse};

const RULES: &str = "/usr/share/spamassassin";
const SITE: &str = "/etc/spamassassin";
/// One message in so many is judged by SpamAssassin in each run.
const SAMPLE_STEP: usize = 9;
/// Processes of SpamAssassin.
const PROCESSES: usize = 2;
/// The promises of the project.
const DEMANDS: Demands = Demands {
    messages_min: 300,
    hits_agree_min: 0.995,
    verdicts_agree_min: 0.999,
    scores_differ_max: 0.005,
    section: "Differences from SpamAssassin's results",
};

fn recorded_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hits.tsv")
}

/// The test messages of other projects, unpacked; none if they are not installed.
fn other_mail(unpacked: &Path) -> Vec<(String, PathBuf)> {
    let Some(folder) = std::env::var_os("GATEPOST_TEST_CORPORA") else {
        eprintln!("other projects' messages are not compared: GATEPOST_TEST_CORPORA is not set");
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in ["mail-parser", "mime4j-mimetools", "rspamd-messages"] {
        let archive = Path::new(&folder).join(format!("mail/{name}.tar.zst"));
        let target = unpacked.join(name);
        std::fs::create_dir_all(&target).expect("a folder can be made");
        let tar = Command::new("tar")
            .args(["--use-compress-program=zstd -d", "-xf"])
            .arg(&archive)
            .arg("-C")
            .arg(&target)
            .status();
        assert!(
            tar.is_ok_and(|status| status.success()),
            "{} can be unpacked",
            archive.display()
        );
        walk(&target, &mut found);
    }
    let mut named: Vec<(String, PathBuf)> = found
        .into_iter()
        .filter_map(|path| {
            let id = path.strip_prefix(unpacked).ok()?.to_str()?.to_owned();
            let ending = path.extension().and_then(|ending| ending.to_str());
            matches!(ending, Some("eml" | "msg")).then_some((id, path))
        })
        .collect();
    named.sort();
    named
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// An identifier of a set of installed rules.
fn installed() -> String {
    let mut digest = Sha1::new();
    for folder in [RULES, SITE] {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("SpamAssassin's rules are missing: {folder}: {error}"))
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|ending| ending == "cf" || ending == "pre")
            })
            .collect();
        files.sort();
        for file in files {
            digest.update(std::fs::read(&file).expect("rule files are readable"));
        }
    }
    let version = Command::new("spamassassin").arg("--version").output();
    let version = version.expect("the peer 'spamassassin' is installed");
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.lines().next().unwrap_or_default().to_owned();
    let digest = digest.finalize();
    let mut text = format!("# {version}, rules ");
    for byte in digest {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn theirs(messages: &[(String, PathBuf)]) -> Judgements {
    let spamassassin = SpamAssassin {
        rules: Path::new(RULES),
        site: Path::new(SITE),
        server: None,
        dmarc: None,
        processes: PROCESSES,
    };
    spamassassin.judge(messages)
}

#[test]
fn the_rules_hit_as_in_spamassassin() {
    let unpacked = tempfile::tempdir().expect("a folder");
    let mut messages = corpus();
    messages.extend(other_mail(unpacked.path()));
    let installed = installed();
    if std::env::var("GATEPOST_ORACLE").is_ok_and(|wish| wish == "renew") {
        renew(&installed, &theirs(&messages));
    }
    let recorded = std::fs::read_to_string(recorded_path()).expect("the record is there");
    let is_current = recorded.lines().next() == Some(&installed);
    let recorded = parse(&recorded);
    let sample: Vec<_> = messages.iter().step_by(SAMPLE_STEP).cloned().collect();
    let fresh = theirs(&sample);
    assert_eq!(fresh.len(), sample.len());

    let settings = RulesSettings {
        // On a busy machine no rule is to be given up.
        max_time: Period::seconds(600),
        ..RulesSettings::default()
    };
    let (rules, _) = RuleSet::load(&[RULES.into(), SITE.into()], &settings);
    // Unoptimised, the whole corpus would take minutes.
    let wanted = std::env::var_os("GATEPOST_ORACLE").is_some() || !cfg!(debug_assertions);
    let whole = is_current && wanted;
    let theirs = if whole {
        for (id, judgement) in &fresh {
            assert_eq!(recorded.get(id), Some(judgement), "{id}: as recorded");
        }
        recorded
    } else {
        println!(
            "only the sample counts: {}",
            if is_current {
                "unoptimised"
            } else {
                "other rules"
            }
        );
        messages = sample;
        fresh
    };
    let ours = ours(&rules, &messages);
    let comparison = compare(&ours, &theirs, 5.0);
    DEMANDS.assert(&comparison, &ours);
}

fn renew(installed: &str, judgements: &Judgements) {
    let mut text = format!("{installed}\n");
    for (id, judgement) in judgements {
        let hits: Vec<&str> = judgement.hits.iter().map(String::as_str).collect();
        let _ = writeln!(text, "{id}\t{}\t{}", judgement.score, hits.join(","));
    }
    std::fs::write(recorded_path(), text).expect("the record can be written");
}
