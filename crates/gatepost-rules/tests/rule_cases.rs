//! Cases of rules in data files, which SpamAssassin itself runs too.
//!
//! A file of `tests/data/rules` contains rules, then messages, each followed by the rules that hit
//! it and the score: sections that begin with `==== rules`, `==== message` and `==== hits`. The
//! expected hits are those of SpamAssassin: `GATEPOST_ORACLE=renew` writes them again. A run
//! compares Gatepost's hits with the file, and the file with the installed SpamAssassin.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatepost_rules::{RuleProblem, RuleSet, RulesSettings, ScanContext};

struct Case {
    message: String,
    /// As the file writes it: the score, then the names, divided by blanks.
    expected: String,
}

struct File {
    path: PathBuf,
    rules: String,
    cases: Vec<Case>,
}

fn files() -> Vec<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rules");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of cases is readable")
        .map(|entry| entry.expect("its entries are readable").path())
        .collect();
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn read(path: PathBuf) -> File {
    let text = std::fs::read_to_string(&path).expect("cases are text");
    let mut rules = String::new();
    let mut cases: Vec<Case> = Vec::new();
    for section in text.split("==== ").skip(1) {
        let (kind, content) = section.split_once('\n').expect("a section has lines");
        match kind {
            "rules" => content.clone_into(&mut rules),
            "message" => cases.push(Case {
                message: content.to_owned(),
                expected: String::new(),
            }),
            "hits" => {
                let case = cases.last_mut().expect("hits follow a message");
                content.trim().clone_into(&mut case.expected);
            }
            other => panic!("{}: no section is called {other}", path.display()),
        }
    }
    File { path, rules, cases }
}

fn outcome(score: f64, mut names: Vec<String>) -> String {
    names.sort();
    names.insert(0, format!("{score:.3}"));
    names.join(" ")
}

fn ours(file: &File) -> Vec<String> {
    let settings = RulesSettings::default();
    let text = format!("{BOUNDARIES}{}", file.rules);
    let (rules, problems) = RuleSet::from_text("cases.cf", text.as_bytes(), &settings);
    let errors = problems
        .iter()
        .filter(|problem| problem.severity != gatepost_rules::Severity::Note);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    assert_eq!(errors, [""; 0], "{}", file.path.display());
    let judge = |case: &Case| {
        let report = rules.scan(case.message.as_bytes(), &ScanContext::default());
        let names = report.hits.iter().map(|hit| hit.name.to_string());
        outcome(report.score, names.collect())
    };
    file.cases.iter().map(judge).collect()
}

/// Without these no text is recognised as a link.
const BOUNDARIES: &str = "util_rb_tld com org net edu example\n";

/// SpamAssassin's usual plugins, as a folder without `loadplugin` lines has them here.
const PLUGINS: [&str; 13] = [
    "Check",
    "BodyEval",
    "DNSEval",
    "FreeMail",
    "HTMLEval",
    "HeaderEval",
    "ImageInfo",
    "MIMEEval",
    "MIMEHeader",
    "RelayEval",
    "URIDetail",
    "URIEval",
    "WLBLEval",
];

fn theirs(file: &File) -> Vec<String> {
    theirs_of(&file.cases, &file.rules, None)
}

/// SpamAssassin's results; the models of languages are in its rule folder.
fn theirs_of(cases: &[Case], rules: &str, models: Option<&Path>) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["rules", "site", "state"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    let plugins = PLUGINS.map(|name| format!("loadplugin Mail::SpamAssassin::Plugin::{name}\n"));
    std::fs::write(path("site/init.pre"), plugins.concat()).expect("written");
    let text = format!("{BOUNDARIES}{rules}");
    std::fs::write(path("rules/cases.cf"), text).expect("written");
    if let Some(models) = models {
        std::fs::copy(models, path("rules/languages")).expect("copied");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hits.pl");
    let mut judge = Command::new("perl")
        .arg(script)
        .env("RULES", path("rules"))
        .env("SITE", path("site"))
        .env("STATE", path("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the peers 'perl' and 'spamassassin' are installed");
    let mut input = judge.stdin.take().expect("is piped");
    for (index, case) in cases.iter().enumerate() {
        let message = path(&format!("{index}.eml"));
        std::fs::write(&message, &case.message).expect("written");
        writeln!(input, "{index}\t{}", message.display()).expect("SpamAssassin reads");
    }
    drop(input);
    let output = judge.wait_with_output().expect("SpamAssassin ends");
    assert!(output.status.success(), "{rules}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let judged = lines.lines().map(|line| {
        let mut columns = line.split('\t').skip(1);
        let score: f64 = columns
            .next()
            .and_then(|score| score.parse().ok())
            .expect("a score");
        let names = columns
            .next()
            .unwrap_or_default()
            .split(',')
            .filter(|name| !name.is_empty());
        outcome(score, names.map(str::to_owned).collect())
    });
    judged.collect()
}

fn renew(file: &File, answers: &[String]) {
    let mut text = format!("==== rules\n{}", file.rules);
    for (case, answer) in file.cases.iter().zip(answers) {
        let _ = write!(text, "==== message\n{}==== hits\n{answer}\n", case.message);
    }
    std::fs::write(&file.path, text).expect("written");
}

fn check(name: &str, judge: fn(&File) -> Vec<String>) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files() {
        for (case, answer) in file.cases.iter().zip(judge(&file)) {
            count += 1;
            if case.expected != answer {
                wrong.push(format!(
                    "{}:\n{}  expected {}\n  {name} {answer}",
                    file.path.display(),
                    case.message,
                    case.expected
                ));
            }
        }
    }
    assert!(count > 20, "{count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn rules_hit_as_the_cases_say() {
    check("ours:", ours);
}

#[test]
fn spamassassin_has_the_same_result() {
    if std::env::var("GATEPOST_ORACLE").is_ok_and(|wish| wish == "renew") {
        for file in files() {
            renew(&file, &theirs(&file));
        }
    }
    check("theirs:", theirs);
}

/// SpamAssassin 4.0.1 collects the character sets that HTML names, and its functions do not see
/// them.
#[test]
fn html_character_sets_are_found_here_alone() {
    let rules = "ok_locales en\n\
        body FARAWAY eval:html_charset_faraway()\nscore FARAWAY 1\n\
        body SEEN /hello/\nscore SEEN 1\n";
    let message = |charset: &str| Case {
        message: format!(
            "Subject: x\nContent-Type: text/html\n\n<meta http-equiv=Content-Type \
             content=\"text/html; charset={charset}\"><p>hello</p>\n"
        ),
        expected: String::new(),
    };
    let file = File {
        path: PathBuf::from("faraway"),
        rules: rules.to_owned(),
        cases: vec![message("koi8-r"), message("iso-8859-1")],
    };
    assert_eq!(ours(&file), ["2.000 FARAWAY SEEN", "1.000 SEEN"]);
    // Once this no longer holds, it becomes a case as all others are.
    assert_eq!(theirs(&file), ["1.000 SEEN", "1.000 SEEN"]);
}

/// Functions of the stock rules that hit in no case here, and why.
const HIT_ELSEWHERE: [(&str, &str); 12] = [
    ("check_dcc*", "a service of others that is not queried"),
    ("check_pyzor*", "a service of others that is not queried"),
    ("check_razor2*", "a service of others that is not queried"),
    ("short_url*", "follows links, which is not done"),
    ("check_language", "languages.txt"),
    ("siq_*", "a service of others that is not queried"),
    (
        "html_charset_faraway",
        "html_character_sets_are_found_here_alone",
    ),
    (
        "check_dkim_testing",
        "senders.rs; SpamAssassin sets to 0 what says so, and never anything else",
    ),
    ("check_bayes", "bayes_agreement.rs, learning.rs"),
    ("check_from_in_auto_w*", "learning.rs"),
    ("check_senders_reputation", "learning.rs"),
    ("check_shortcircuit", "shortcircuit.txt, by the directive"),
];

/// Every function that Debian's rules call hits in a case that SpamAssassin confirms, or is among
/// the tests of the network.
#[test]
fn each_function_of_the_stock_rules_has_a_case() {
    let functions = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| {
            let (rule, call) = line.split_once("eval:")?;
            let name = rule.split_whitespace().nth(1)?;
            let function = call.split('(').next()?;
            Some((name.to_owned(), function.trim().to_owned()))
        });
        lines.collect()
    };
    let mut hit: Vec<String> = Vec::new();
    for file in files() {
        let expected = file.cases.iter().flat_map(|case| case.expected.split(' '));
        let names: Vec<&str> = expected.collect();
        let calls = functions(&file.rules).into_iter();
        hit.extend(
            calls
                .filter(|(name, _)| names.contains(&name.as_str()))
                .map(|(_, call)| call),
        );
    }
    let network = [
        include_str!("data/network/lists.cf"),
        include_str!("data/network/senders.cf"),
    ];
    hit.extend(
        network
            .iter()
            .flat_map(|text| functions(text))
            .map(|(_, call)| call),
    );
    let mut missing = Vec::new();
    let stock = std::fs::read_dir("/usr/share/spamassassin");
    for entry in stock.expect("the peer 'spamassassin' is installed") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read(&path).unwrap_or_default();
        for (_, function) in functions(&String::from_utf8_lossy(&text)) {
            let is_elsewhere = HIT_ELSEWHERE.iter().any(|(known, _)| {
                let start = known.strip_suffix('*');
                start.map_or(function == *known, |start| function.starts_with(start))
            });
            if !is_elsewhere && !hit.contains(&function) && !missing.contains(&function) {
                missing.push(function);
            }
        }
    }
    assert_eq!(missing, [""; 0], "functions without a case that hits");
}

/// Texts in several languages with SpamAssassin's models, and its results for them.
#[test]
fn languages_are_distinguished_as_in_spamassassin() {
    let models = "/usr/share/spamassassin/languages";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(models, folder.path().join("languages"))
        .expect("the peer 'spamassassin' is installed");
    let rules = "loadplugin Mail::SpamAssassin::Plugin::Check\n\
        loadplugin Mail::SpamAssassin::Plugin::TextCat\n\
        body UNWANTED eval:check_language()\nok_languages en de\n";
    std::fs::write(folder.path().join("cases.cf"), rules).expect("written");
    let (ours, problems) = RuleSet::load(&[folder.path().to_path_buf()], &RulesSettings::default());
    let errors = problems
        .iter()
        .filter(|problem| problem.severity != gatepost_rules::Severity::Note);
    assert_eq!(errors.count(), 0, "{problems:?}");
    let texts = include_str!("data/languages.txt").split("====\n");
    let cases: Vec<Case> = texts
        .map(|text| Case {
            message: format!("Subject: x\nContent-Type: text/plain; charset=utf-8\n\n{text}"),
            expected: String::new(),
        })
        .collect();
    let judge = |case: &Case| {
        let report = ours.scan(case.message.as_bytes(), &ScanContext::default());
        outcome(
            report.score,
            report.hits.iter().map(|hit| hit.name.to_string()).collect(),
        )
    };
    let ours: Vec<String> = cases.iter().map(judge).collect();
    let theirs = theirs_of(&cases, rules, Some(Path::new(models)));
    assert_eq!(ours, theirs);
    assert!(
        ours.iter().any(|outcome| outcome.contains("UNWANTED"))
            && ours.iter().any(|outcome| !outcome.contains("UNWANTED"))
    );
}

/// Debian's rules with every plugin that its lists name: each line that has no effect is reported
/// with a reason.
#[test]
fn debian_rules_have_no_unexplained_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plugins = String::new();
    for entry in
        std::fs::read_dir("/etc/spamassassin").expect("the peer 'spamassassin' is installed")
    {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "pre") {
            let text = std::fs::read_to_string(path).expect("text");
            let lines = text.lines().map(|line| line.trim_start_matches(['#', ' ']));
            let loading = lines.filter(|line| line.starts_with("loadplugin "));
            plugins.extend(loading.flat_map(|line| [line, "\n"]));
        }
    }
    let list = folder.path().join("all.pre");
    std::fs::write(&list, plugins).expect("written");
    let rules = Path::new("/usr/share/spamassassin");
    for network in [false, true] {
        let settings = RulesSettings {
            network,
            dns_server: Some("127.0.0.1".to_owned()),
            ..RulesSettings::default()
        };
        let (set, problems) = RuleSet::load(&[list.clone(), rules.to_path_buf()], &settings);
        let reported: Vec<String> = problems
            .iter()
            .filter(|problem| problem.severity > gatepost_rules::Severity::Note)
            .map(ToString::to_string)
            .collect();
        assert_eq!(reported.len(), 1, "{reported:#?}");
        assert!(reported[0].contains("PhishTag"), "{reported:?}");
        let lacking = problems
            .iter()
            .filter(|problem| problem.cause == "plugin not here" && problem.rule.is_some());
        for problem in lacking {
            let is_known = ["DCC", "Pyzor", "Razor"]
                .iter()
                .any(|name| problem.reason.contains(name));
            assert!(is_known, "{problem}");
        }
        let failed: Vec<RuleProblem> = set
            .self_tests()
            .into_iter()
            .filter(|problem| problem.cause != "example without a rule")
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
        assert!(set.statistics().rules > 2400, "{:?}", set.statistics());
    }
}
