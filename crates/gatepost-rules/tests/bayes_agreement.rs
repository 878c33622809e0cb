//! Bayes compared with SpamAssassin's, if SpamAssassin and the public corpus are installed: after
//! the same training both have the same tokens with the same counts, and give other messages the
//! same probability.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatepost_learning::Learning;
use gatepost_learning::bayes::{Bayes, BayesSample, Class, Relearn};
use gatepost_mail::Mail;
use gatepost_rules::{RuleSet, RulesSettings, ScanContext};

/// One message in so many is trained with.
const TRAINED_STEP: usize = 25;
/// One message in so many, and none of those trained with, is judged.
const JUDGED_STEP: usize = 251;
/// Probabilities may differ by so much: SpamAssassin prints four digits.
const TOLERANCE: f64 = 1e-4;

const PREFERENCES: &str = "use_bayes 1\nbayes_auto_learn 0\nbayes_min_spam_num 10\n\
    bayes_min_ham_num 10\nadd_header all Bayes probability=_BAYES_\n\
    add_header all Table _REPORT_\n";

fn corpus() -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.corpora/spamassassin");
    let mut files = Vec::new();
    for group in std::fs::read_dir(folder).ok()?.flatten() {
        let Ok(entries) = std::fs::read_dir(group.path()) else {
            continue;
        };
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    Some(files)
}

/// Runs a tool of SpamAssassin with a home and preferences of its own.
fn run(home: &Path, tool: &str, arguments: &[&str], input: Option<&Path>) -> String {
    let input = match input {
        Some(path) => Stdio::from(std::fs::File::open(path).expect("opens")),
        None => Stdio::null(),
    };
    let output = Command::new(tool)
        .env("HOME", home)
        .arg("-p")
        .arg(home.join("preferences"))
        .args(arguments)
        .stdin(input)
        .output()
        .expect("runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The line of Bayes' rule in a table of rules, with the note below it.
fn bayes_lines(table: &str) -> Option<(String, String)> {
    let mut lines = table.lines().map(str::trim);
    let rule = lines.find(|line| line.contains(" BAYES_"))?;
    Some((rule.to_owned(), lines.next()?.to_owned()))
}

fn class(path: &Path) -> Class {
    if path.to_string_lossy().contains("/spam-") {
        Class::Spam
    } else {
        Class::Ham
    }
}

/// Counts by token, of a backup.
fn counts(backup: &str) -> BTreeMap<String, (u32, u32)> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["t", spam, ham, _, token] => {
                Some(((*token).to_owned(), (spam.parse().ok()?, ham.parse().ok()?)))
            }
            _ => None,
        }
    };
    backup.lines().filter_map(line).collect()
}

fn train_spamassassin(home: &Path, trained: &[&PathBuf]) -> String {
    for (wanted, flag) in [(Class::Ham, "--ham"), (Class::Spam, "--spam")] {
        let lines: Vec<String> = trained
            .iter()
            .filter(|path| class(path) == wanted)
            .map(|path| format!("{}\n", path.display()))
            .collect();
        let list = home.join("list");
        std::fs::write(&list, lines.concat()).expect("writes a list");
        run(
            home,
            "sa-learn",
            &[flag, "-f", &list.to_string_lossy()],
            None,
        );
    }
    run(home, "sa-learn", &["--backup"], None)
}

/// SpamAssassin restores all of Gatepost's backup, and Gatepost all of SpamAssassin's.
fn each_reads_the_others_backup(ours: &[u8], theirs: &str) {
    let home = tempfile::tempdir().expect("makes a folder");
    let home = home.path();
    std::fs::write(home.join("preferences"), PREFERENCES).expect("writes preferences");
    let file = home.join("backup");
    std::fs::write(&file, ours).expect("writes a backup");
    run(
        home,
        "sa-learn",
        &["--restore", &file.to_string_lossy()],
        None,
    );
    let restored = run(home, "sa-learn", &["--backup"], None);
    let sent = counts(&String::from_utf8_lossy(ours));
    assert!(sent.len() > 1000);
    assert_eq!(counts(&restored), sent, "SpamAssassin restores our backup");

    let bayes = Bayes::in_memory();
    bayes.import(theirs.as_bytes()).expect("imports");
    let mut again = Vec::new();
    bayes.export(&mut again).expect("exports");
    let again = counts(&String::from_utf8_lossy(&again));
    assert_eq!(again, counts(theirs), "we restore SpamAssassin's backup");
}

#[test]
fn tokens_and_probabilities_agree_with_spamassassin() {
    let is_installed = Path::new("/usr/bin/sa-learn").exists();
    let Some(files) = corpus().filter(|files| is_installed && files.len() > 1000) else {
        println!("skipped: SpamAssassin or the public corpus is not here");
        return;
    };
    let home = tempfile::tempdir().expect("makes a folder");
    let home = home.path();
    std::fs::write(home.join("preferences"), PREFERENCES).expect("writes preferences");
    let trained: Vec<&PathBuf> = files.iter().step_by(TRAINED_STEP).collect();
    let judged = files
        .iter()
        .skip(1)
        .step_by(JUDGED_STEP)
        .filter(|path| !trained.contains(path));
    let settings = RulesSettings {
        preferences: Some(home.join("preferences")),
        ..RulesSettings::default()
    };
    let (rules, _) = RuleSet::load(&settings.paths, &settings);
    let learned = Learning::in_memory();
    let bayes = learned.bayes.clone();
    let rules = rules.with_learning(learned);
    let learning = &rules.learning_settings().bayes;
    let sample = |path: &Path| {
        let bytes = std::fs::read(path).expect("reads");
        BayesSample::of(
            &Mail::parse_with(&bytes, &rules.configuration().views),
            learning,
        )
    };
    for path in &trained {
        bayes.learn(&sample(path), class(path), Relearn::Change, learning);
    }
    let backup = train_spamassassin(home, &trained);
    let mut ours = Vec::new();
    bayes.export(&mut ours).expect("exports");
    each_reads_the_others_backup(&ours, &backup);
    let (ours, theirs) = (counts(&String::from_utf8_lossy(&ours)), counts(&backup));
    let is_same = |(token, counts): &(&String, &(u32, u32))| theirs.get(*token) == Some(*counts);
    let same = ours.iter().filter(is_same).count();
    println!(
        "trained with {}: {} tokens here, {} there, {same} the same with the same counts",
        trained.len(),
        ours.len(),
        theirs.len()
    );
    assert!(theirs.len() > 1000, "SpamAssassin has learned");
    assert!(same * 1000 >= theirs.len().max(ours.len()) * 999);

    let mut count = 0;
    let mut reports = Vec::new();
    let mut differing = Vec::new();
    for path in judged {
        let text = run(home, "spamassassin", &["-L"], Some(path));
        let theirs: Option<f64> = text
            .lines()
            .find_map(|line| line.strip_prefix("X-Spam-Bayes: probability="))
            .and_then(|value| value.trim().parse().ok());
        let theirs = theirs.expect("SpamAssassin prints its probability");
        let judgement = bayes.classify(&sample(path), learning);
        let ours = judgement.map(|judgement| judgement.probability);
        count += 1;
        let bytes = std::fs::read(path).expect("reads");
        let fields = rules.scan(&bytes, &ScanContext::default()).header_fields();
        let table = fields.iter().find(|(name, _)| name == "X-Spam-Table");
        let reported = table.and_then(|(_, table)| bayes_lines(table));
        reports.push((path, reported, bayes_lines(&text)));
        if ours.is_none_or(|ours| (ours - theirs).abs() > TOLERANCE) {
            differing.push(format!("{}: {ours:?} here, {theirs} there", path.display()));
        }
    }
    println!(
        "judged {count}, of those {} differ {differing:#?}",
        differing.len()
    );
    assert!(differing.len() * 10 <= count);
    let noted = |(_, ours, theirs): &&(_, Option<(String, String)>, _)| ours == theirs;
    let same = reports.iter().filter(noted);
    let with_note = same.filter(|(_, ours, _)| {
        let note = ours.as_ref().map(|(_, note)| note.as_str());
        note.is_some_and(|note| note.starts_with("*      [score: "))
    });
    let with_note = with_note.count();
    // Messages whose probability differs have another note too.
    assert!(with_note + differing.len() >= count, "{reports:#?}");
}
