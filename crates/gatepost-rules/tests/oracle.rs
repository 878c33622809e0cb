//! The rules here against SpamAssassin itself, rule by rule.
//!
//! `tests/data/oracle/hits.tsv` holds what SpamAssassin said of every message of the public corpus
//! and, where they are there, of other projects' test messages, with Debian's rules and local tests
//! only. Each run asks the installed SpamAssassin again about a sample, which must say what the
//! file says, and compares ours with both. Differences that are understood stand in
//! `docs/notes/rules-differences.md` with their cause; any other fails, and so does a line there
//! that no longer holds.
//!
//! After a change of the installed rules the file is older than they are: then only the sample
//! counts, until `GATEPOST_ORACLE=renew` writes the whole file again (some minutes).
//! Unoptimised builds compare the sample only, unless `GATEPOST_ORACLE=whole` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use gatepost_settings::Period;
use sha1::{Digest, Sha1};

const RULES: &str = "/usr/share/spamassassin";
const SITE: &str = "/etc/spamassassin";
/// One message in so many is judged by SpamAssassin in each run.
const SAMPLE_STEP: usize = 9;
/// Processes of SpamAssassin, and threads of ours.
const JUDGES: usize = 2;

// What the project promises.
const HITS_AGREE_MIN: f64 = 0.995;
const VERDICTS_AGREE_MIN: f64 = 0.999;
const SCORES_DIFFER_MAX: f64 = 0.005;
/// Scores that differ by more count as different.
const SCORE_TOLERANCE: f64 = 0.1;

#[derive(Debug, Clone, PartialEq)]
struct Judgement {
    score: f64,
    hits: BTreeSet<String>,
}

/// Judgements by message.
type Judgements = BTreeMap<String, Judgement>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recorded_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hits.tsv")
}

/// The messages of the public corpus, in the order of the list.
fn corpus() -> Vec<(String, PathBuf)> {
    let folder = root().join(".corpora/spamassassin");
    let list = root().join("tests/corpus-list.txt");
    let list = std::fs::read_to_string(list).expect("the list of messages is there");
    assert!(
        folder.is_dir(),
        "the public corpus is missing; tests/fetch-corpus fetches it"
    );
    let path = |id: &str| (id.to_owned(), folder.join(format!("{id}.txt")));
    list.lines().map(path).collect()
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

fn parse(text: &str) -> Judgements {
    let mut judgements = Judgements::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split('\t');
        let mut column = || columns.next().unwrap_or_default();
        let (id, score, hits) = (column(), column(), column());
        let hits = hits.split(',').filter(|hit| !hit.is_empty());
        let judgement = Judgement {
            score: score
                .parse()
                .unwrap_or_else(|_| panic!("{line:?} has a score")),
            hits: hits.map(str::to_owned).collect(),
        };
        judgements.insert(id.to_owned(), judgement);
    }
    judgements
}

/// Asks SpamAssassin.
fn theirs(messages: &[(String, PathBuf)]) -> Judgements {
    let state = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hits.pl");
    let chunk = messages.len().div_ceil(JUDGES).max(1);
    let mut judges = Vec::new();
    for (index, messages) in messages.chunks(chunk).enumerate() {
        let state = state.path().join(index.to_string());
        std::fs::create_dir(&state).expect("a folder");
        let mut judge = Command::new("perl")
            .arg(&script)
            .env("RULES", RULES)
            .env("SITE", SITE)
            .env("STATE", &state)
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(state.join("hits")).expect("a file"))
            .spawn()
            .expect("perl runs");
        let mut input = judge.stdin.take().expect("is piped");
        for (id, path) in messages {
            writeln!(input, "{id}\t{}", path.display()).expect("SpamAssassin reads");
        }
        drop(input);
        judges.push((judge, state.join("hits")));
    }
    let mut all = Judgements::new();
    for (mut judge, hits) in judges {
        assert!(judge.wait().expect("ends").success(), "SpamAssassin ran");
        all.append(&mut parse(&std::fs::read_to_string(hits).expect("text")));
    }
    all
}

/// Asks ours.
fn ours(rules: &RuleSet, messages: &[(String, PathBuf)]) -> Judgements {
    let judge = |(id, path): &(String, PathBuf)| {
        let message = std::fs::read(path).expect("messages are readable");
        let report = rules.scan(&message, &ScanContext::default());
        let hits = report.hits.iter().map(|hit| hit.name.to_string());
        let judgement = Judgement {
            score: report.score,
            hits: hits.collect(),
        };
        (id.clone(), judgement)
    };
    let chunk = messages.len().div_ceil(JUDGES).max(1);
    std::thread::scope(|scope| {
        let judges: Vec<_> = messages
            .chunks(chunk)
            .map(|messages| scope.spawn(move || messages.iter().map(judge).collect::<Vec<_>>()))
            .collect();
        let done = judges.into_iter().map(std::thread::ScopedJoinHandle::join);
        done.flat_map(|judged| judged.expect("no message makes the rules panic"))
            .collect()
    })
}

/// A rule on which one side differs: rule, `+` (ours alone) or `-` (theirs alone), message.
type Difference = (String, char, String);

#[derive(Debug, Default)]
struct Comparison {
    messages: usize,
    both: usize,
    verdicts_agree: usize,
    scores_differ: usize,
    differences: BTreeSet<Difference>,
}

fn compare(ours: &Judgements, theirs: &Judgements, required: f64) -> Comparison {
    let mut comparison = Comparison::default();
    for (id, theirs) in theirs {
        let Some(ours) = ours.get(id) else {
            continue;
        };
        comparison.messages += 1;
        comparison.both += ours.hits.intersection(&theirs.hits).count();
        let verdicts = (ours.score >= required) == (theirs.score >= required);
        comparison.verdicts_agree += usize::from(verdicts);
        let scores = (ours.score - theirs.score).abs() > SCORE_TOLERANCE;
        comparison.scores_differ += usize::from(scores);
        for (sign, here, there) in [('+', ours, theirs), ('-', theirs, ours)] {
            for rule in here.hits.difference(&there.hits) {
                let difference = (rule.clone(), sign, id.clone());
                comparison.differences.insert(difference);
            }
        }
    }
    comparison
}

/// The rows of the table: `| RULE | + or - | message | cause |`.
fn understood() -> BTreeMap<Difference, String> {
    let path = root().join("docs/notes/rules-differences.md");
    let text = std::fs::read_to_string(path).expect("the table of differences is there");
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, rule, sign, id, cause, _] = cells[..] else {
                return None;
            };
            let rule = rule.trim_matches('`').to_owned();
            let sign = sign.chars().next().filter(|sign| "+-".contains(*sign))?;
            let is_row = !rule.starts_with('-');
            let id = id.trim_matches('`').to_owned();
            is_row.then(|| ((rule, sign, id), cause.to_owned()))
        })
        .collect()
}

#[test]
fn the_rules_say_what_spamassassin_says() {
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
    judge(&comparison, &ours);
}

fn renew(installed: &str, judgements: &Judgements) {
    let mut text = format!("{installed}\n");
    for (id, judgement) in judgements {
        let hits: Vec<&str> = judgement.hits.iter().map(String::as_str).collect();
        let _ = writeln!(text, "{id}\t{}\t{}", judgement.score, hits.join(","));
    }
    std::fs::write(recorded_path(), text).expect("the record can be written");
}

fn judge(comparison: &Comparison, ours: &Judgements) {
    let part = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    let hits = comparison.both + comparison.differences.len();
    let agree = part(comparison.both, hits);
    let verdicts = part(comparison.verdicts_agree, comparison.messages);
    let scores = part(comparison.scores_differ, comparison.messages);
    println!(
        "{} messages: {} of {hits} hits agree ({:.3} %), verdicts {:.3} %, \
         scores differ {:.3} %",
        comparison.messages,
        comparison.both,
        100.0 * agree,
        100.0 * verdicts,
        100.0 * scores
    );
    let understood = understood();
    let mut unknown = Vec::new();
    for difference @ (rule, sign, id) in &comparison.differences {
        let cause = understood.get(difference);
        println!(
            "{rule:32} {sign} {id}  {}",
            cause.map_or("unknown", String::as_str)
        );
        if cause.is_none() {
            unknown.push(format!("{sign} {rule} {id}"));
        }
    }
    assert!(comparison.messages > 300, "a sample worth the name");
    assert!(
        unknown.is_empty(),
        "differences that the table does not explain:\n{}",
        unknown.join("\n")
    );
    let gone: Vec<_> = understood
        .keys()
        .filter(|row| ours.contains_key(&row.2) && !comparison.differences.contains(*row))
        .collect();
    assert!(gone.is_empty(), "the table only shrinks; remove: {gone:?}");
    assert!(agree >= HITS_AGREE_MIN, "hits agree: {agree}");
    assert!(verdicts >= VERDICTS_AGREE_MIN, "verdicts agree: {verdicts}");
    assert!(scores <= SCORES_DIFFER_MAX, "scores differ: {scores}");
}
