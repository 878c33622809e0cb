//! Learning changes later scores, unless it is switched off.

use std::path::{Path, PathBuf};

use gatepost_learning::Learning;
use gatepost_learning::bayes::{Class, Learned};
use gatepost_mail::Mail;
use gatepost_rules::{RuleSet, RulesSettings, ScanContext};

const RULES: &str = "\
    loadplugin Mail::SpamAssassin::Plugin::Bayes\n\
    loadplugin Mail::SpamAssassin::Plugin::AWL\n\
    bayes_min_spam_num 5\n\
    bayes_min_ham_num 5\n\
    bayes_auto_learn 0\n\
    body WATCHES /watches/\n\
    score WATCHES 1 1 2 2\n\
    body BAYES_99 eval:check_bayes('0.99', '1.00')\n\
    tflags BAYES_99 learn\n\
    score BAYES_99 0 0 3.5 3.5\n\
    header AWL eval:check_from_in_auto_welcomelist()\n\
    tflags AWL userconf noautolearn\n\
    use_auto_welcomelist 0\n";

fn rules(folder: &Path, more: &str, settings: &RulesSettings) -> RuleSet {
    std::fs::write(folder.join("rules.cf"), format!("{RULES}{more}")).expect("writes rules");
    let paths: [PathBuf; 1] = [folder.to_owned()];
    let (rules, problems) = RuleSet::load(&paths, settings);
    for problem in problems {
        eprintln!("{problem}");
    }
    rules.with_learning(Learning::in_memory())
}

fn message(number: u32, words: &str) -> String {
    format!(
        "From: Sender <sender{number}@example.org>\nMessage-Id: <{number}@example.org>\n\
         Subject: number {number}\nDate: Thu, 22 Aug 2002 10:00:00 +0000\n\n{words}\n\n{number}\n"
    )
}

fn teach(rules: &RuleSet) {
    let learning = rules.learning().expect("was joined");
    let settings = rules.learning_settings();
    for number in 0..5 {
        let spam = message(number, "cheap replica watches luxury discount offer");
        let ham = message(
            number + 10,
            "meeting agenda minutes project schedule tomorrow",
        );
        for (text, class) in [(spam, Class::Spam), (ham, Class::Ham)] {
            let mail = Mail::parse(text.as_bytes());
            let learn = || learning.learn(&mail, class, settings).expect("learns");
            assert_eq!(learn(), Learned::New);
            assert_eq!(learn(), Learned::Before);
        }
    }
}

#[test]
fn learning_changes_a_later_score() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let rules = rules(folder.path(), "", &RulesSettings::default());
    let scan = |text: &str| rules.scan(text.as_bytes(), &ScanContext::default());
    let spam = message(99, "luxury replica watches, cheap offer");
    assert_eq!(scan(&spam).symbols(), "WATCHES");
    assert!((scan(&spam).score - 1.0).abs() < 1e-9);
    teach(&rules);
    // The score set with Bayes applies now, to other rules too.
    assert_eq!(scan(&spam).symbols(), "BAYES_99,WATCHES");
    assert!((scan(&spam).score - 5.5).abs() < 1e-9);
    let ham = message(98, "project meeting tomorrow, agenda");
    assert_eq!(scan(&ham).symbols(), "");

    let learning = rules.learning().expect("was joined");
    let first = message(0, "cheap replica watches luxury discount offer");
    let first = Mail::parse(first.as_bytes());
    let forgotten = learning.forget(&first, rules.learning_settings());
    assert!(forgotten.expect("forgets"));
    assert_eq!(
        scan(&spam).symbols(),
        "WATCHES",
        "too little is known again"
    );
}

#[test]
fn a_clear_message_is_learned_by_itself() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let more = "bayes_auto_learn 1\nheader HEAD Subject =~ /number/\nscore HEAD 9\n\
        body BODY /luxury/\nscore BODY 9\n";
    let rules = rules(folder.path(), more, &RulesSettings::default());
    let text = message(1, "luxury watches");
    let scan = || rules.scan(text.as_bytes(), &ScanContext::default());
    assert_eq!(scan().autolearn.name(), "spam");
    assert_eq!(
        scan().autolearn.name(),
        "unavailable",
        "it was learned before"
    );
    let totals = rules.learning().expect("was joined").bayes.totals();
    assert_eq!((totals.spam, totals.ham), (1, 0));
}

#[test]
fn a_sender_is_drawn_towards_his_average() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let rules = rules(
        folder.path(),
        "use_auto_welcomelist 1\n",
        &RulesSettings::default(),
    );
    let scan = |words: &str| rules.scan(message(7, words).as_bytes(), &ScanContext::default());
    assert_eq!(scan("hello").symbols(), "");
    // Half way from 1 to the average of before, which is 0.
    let drawn = scan("watches");
    assert_eq!(drawn.symbols(), "AWL,WATCHES");
    assert!((drawn.score - 0.5).abs() < 1e-9);
}

#[test]
fn each_match_of_a_rule_counts() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let more = "use_auto_welcomelist 1\nbayes_auto_learn 1\n\
        header HEAD Subject =~ /number/\nscore HEAD 6\n\
        body WORD /luxury/\nscore WORD 2\ntflags WORD multiple\n";
    let rules = rules(folder.path(), more, &RulesSettings::default());
    let scan = |words: &str| rules.scan(message(7, words).as_bytes(), &ScanContext::default());
    // 12 points, from which a message is learned as spam.
    let report = scan("luxury, luxury, luxury");
    assert_eq!(report.symbols(), "HEAD,WORD,WORD,WORD");
    assert_eq!(report.autolearn.name(), "spam");
    // Half way from 6 to the average of before, which is 12.
    let drawn = scan("hello");
    assert!((drawn.score - 9.0).abs() < 1e-9, "{}", drawn.score);
}

/// Rules with Bayes trained, and preferences of `anna`.
fn trained_with_user(folder: &Path, preferences: &str, settings: RulesSettings) -> RuleSet {
    let users = folder.join("users");
    std::fs::create_dir(&users).expect("makes a folder");
    std::fs::write(users.join("anna"), preferences).expect("writes preferences");
    let settings = RulesSettings {
        user_preferences: Some(users),
        ..settings
    };
    let more = "bayes_auto_learn 1\nbayes_auto_learn_threshold_nonspam 4\n\
        use_auto_welcomelist 1\nbody OFF /luxury/\nscore OFF 0\nbody BROKEN /(/\n";
    let rules = rules(folder, more, &settings);
    if settings.bayes {
        teach(&rules);
    }
    rules
}

#[test]
fn users_switch_learning_for_their_mail() {
    let anna = ScanContext {
        user: Some("anna"),
        ..ScanContext::default()
    };
    let folder = tempfile::tempdir().expect("makes a folder");
    let off = "use_bayes 0\nuse_auto_whitelist 0\n";
    let rules = trained_with_user(folder.path(), off, RulesSettings::default());
    assert_eq!(rules.user_problems(), []);
    let spam = message(99, "luxury replica watches, cheap offer");
    let (hers, others) = (
        rules.scan(spam.as_bytes(), &anna),
        rules.scan(spam.as_bytes(), &ScanContext::default()),
    );
    assert_eq!(hers.symbols(), "WATCHES");
    assert_eq!(hers.autolearn.name(), "disabled");
    assert_eq!(others.symbols(), "BAYES_99,WATCHES");
    let average = || rules.learning().expect("was joined").reputation.len();
    let before = average();
    rules.scan(message(50, "hello").as_bytes(), &anna);
    assert_eq!(average(), before, "the sender has no average");

    let folder = tempfile::tempdir().expect("makes a folder");
    let rules = trained_with_user(
        folder.path(),
        "bayes_auto_learn 0\n",
        RulesSettings::default(),
    );
    let ham = message(98, "project meeting tomorrow, agenda");
    let learned = |context: &ScanContext<'_>| rules.scan(ham.as_bytes(), context).autolearn;
    assert_eq!(learned(&anna).name(), "disabled");
    assert_eq!(learned(&ScanContext::default()).name(), "ham");

    // What the settings switch off stays off.
    let folder = tempfile::tempdir().expect("makes a folder");
    let settings = RulesSettings {
        bayes: false,
        ..RulesSettings::default()
    };
    let rules = trained_with_user(folder.path(), "use_bayes 1\n", settings);
    assert_eq!(
        rules.scan(ham.as_bytes(), &anna).autolearn.name(),
        "disabled"
    );
}

#[test]
fn preferences_without_effect_are_reported() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let preferences = "bayes_min_spam_num 1\ntxrep_factor 1\nscore OFF 3\nscore NONE 3\n\
        score BROKEN 3\nscore WATCHES 3\nscore BAYES_99 1\nscore OFF 0\n\
        score GATEPOST_GIVEN_UP 3\n";
    let rules = trained_with_user(folder.path(), preferences, RulesSettings::default());
    let problems = rules.user_problems();
    let lines: Vec<u32> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5], "{problems:?}");
}

#[test]
fn switched_off_the_same_message_gives_the_same_result_always() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let off_by_settings = RulesSettings {
        bayes: false,
        auto_welcomelist: false,
        ..RulesSettings::default()
    };
    let on_in_files = "use_auto_welcomelist 1\nbayes_auto_learn 1\n";
    let off_in_files = "use_bayes 0\nuse_auto_whitelist 0\nbayes_auto_learn 1\n";
    for (more, settings) in [
        (on_in_files, off_by_settings),
        (off_in_files, RulesSettings::default()),
    ] {
        let rules = rules(folder.path(), more, &settings);
        let texts = [message(1, "watches"), message(1, "hello")];
        let scan = |text: &String| {
            let report = rules.scan(text.as_bytes(), &ScanContext::default());
            (report.symbols(), report.score.to_bits(), report.autolearn)
        };
        let first: Vec<_> = texts.iter().map(scan).collect();
        let learning = rules.learning().expect("was joined");
        for _ in 0..3 {
            let mail = Mail::parse(texts[0].as_bytes());
            let learned = learning.learn(&mail, Class::Spam, rules.learning_settings());
            learned.expect("learns");
            assert_eq!(texts.iter().map(scan).collect::<Vec<_>>(), first);
        }
        assert!(learning.reputation.is_empty());
    }
}
