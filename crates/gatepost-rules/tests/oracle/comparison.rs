//! Results of SpamAssassin and of Gatepost, and their comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatepost_rules::{RuleSet, ScanContext};

/// The threads of Gatepost.
const JUDGES: usize = 2;
/// Scores that differ by more count as different.
const SCORE_TOLERANCE: f64 = 0.1;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) score: f64,
    pub(crate) hits: BTreeSet<String>,
}

/// Judgements by message.
pub(crate) type Judgements = BTreeMap<String, Judgement>;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The messages of the public corpus, in the order of the list.
pub(crate) fn corpus() -> Vec<(String, PathBuf)> {
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

pub(crate) fn parse(text: &str) -> Judgements {
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

/// SpamAssassin, with the folders of its rules and its settings.
pub(crate) struct SpamAssassin<'a> {
    pub(crate) rules: &'a Path,
    pub(crate) site: &'a Path,
    /// The DNS server of network rules; without one, only local rules run.
    pub(crate) server: Option<SocketAddr>,
    /// The settings of Mail::DMARC.
    pub(crate) dmarc: Option<&'a Path>,
    /// Processes at once.
    pub(crate) processes: usize,
}

impl SpamAssassin<'_> {
    /// Its judgements of messages.
    pub(crate) fn judge(&self, messages: &[(String, PathBuf)]) -> Judgements {
        let state = tempfile::tempdir().expect("a folder");
        let chunk = messages.len().div_ceil(self.processes).max(1);
        let mut judges = Vec::new();
        for (index, messages) in messages.chunks(chunk).enumerate() {
            let state = state.path().join(index.to_string());
            std::fs::create_dir(&state).expect("a folder");
            let hits = state.join("hits");
            let mut judge = self
                .command(&state)
                .stdin(Stdio::piped())
                .stdout(std::fs::File::create(&hits).expect("a file"))
                .spawn()
                .expect("the peers 'perl' and 'spamassassin' are installed");
            let mut input = judge.stdin.take().expect("is piped");
            for (id, path) in messages {
                writeln!(input, "{id}\t{}", path.display()).expect("SpamAssassin reads");
            }
            drop(input);
            judges.push((judge, hits));
        }
        let mut all = Judgements::new();
        for (mut judge, hits) in judges {
            assert!(judge.wait().expect("ends").success(), "SpamAssassin ran");
            all.append(&mut parse(&std::fs::read_to_string(hits).expect("text")));
        }
        all
    }

    fn command(&self, state: &Path) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hits.pl");
        let mut command = Command::new("perl");
        command
            .arg(script)
            .env("RULES", self.rules)
            .env("SITE", self.site)
            .env("STATE", state);
        if let Some(server) = self.server {
            // Mail::DMARC uses its own resolver; the last two variables set its server to this one.
            command
                .env("NETWORK", "1")
                .env("EXTRA", format!("dns_server {server}\n"))
                .env("RES_NAMESERVERS", server.ip().to_string())
                .env("RES_OPTIONS", format!("port:{}", server.port()));
        }
        if let Some(dmarc) = self.dmarc {
            command.env("MAIL_DMARC_CONFIG_FILE", dmarc);
        }
        command
    }
}

/// Asks ours.
pub(crate) fn ours(rules: &RuleSet, messages: &[(String, PathBuf)]) -> Judgements {
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
pub(crate) struct Comparison {
    pub(crate) messages: usize,
    pub(crate) both: usize,
    pub(crate) verdicts_agree: usize,
    pub(crate) scores_differ: usize,
    pub(crate) differences: BTreeSet<Difference>,
}

pub(crate) fn compare(ours: &Judgements, theirs: &Judgements, required: f64) -> Comparison {
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

/// The rows of a section's table: `| RULE | + or - | message | cause |`.
fn understood(section: &str) -> BTreeMap<Difference, String> {
    let path = root().join("docs/notes/rules-differences.md");
    let text = std::fs::read_to_string(path).expect("the table of differences is there");
    let heading = format!("# {section}\n");
    let (_, rows) = text.split_once(&heading).expect("the section is there");
    let rows = rows.split("\n## ").next().unwrap_or_default();
    rows.lines()
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

/// The demands on a comparison.
pub(crate) struct Demands {
    pub(crate) messages_min: usize,
    pub(crate) hits_agree_min: f64,
    pub(crate) verdicts_agree_min: f64,
    pub(crate) scores_differ_max: f64,
    /// The section of `docs/notes/rules-differences.md` that lists the differences.
    pub(crate) section: &'static str,
}

impl Demands {
    pub(crate) fn assert(&self, comparison: &Comparison, ours: &Judgements) {
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
        self.assert_understood(comparison, ours);
        assert!(
            comparison.messages >= self.messages_min,
            "a sample worth the name"
        );
        assert!(agree >= self.hits_agree_min, "hits agree: {agree}");
        assert!(
            verdicts >= self.verdicts_agree_min,
            "verdicts agree: {verdicts}"
        );
        assert!(scores <= self.scores_differ_max, "scores differ: {scores}");
    }

    fn assert_understood(&self, comparison: &Comparison, ours: &Judgements) {
        let understood = understood(self.section);
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
    }
}
