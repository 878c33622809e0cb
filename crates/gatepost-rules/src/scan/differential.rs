//! Differential test: a scan with prefilters has the same hits as one that matches every pattern
//! against every text.

use std::path::{Path, PathBuf};

use super::filter::without_prefilters;
use crate::{Report, RuleSet, RulesSettings, ScanContext};

/// One of this many messages of the public corpus is compared.
const SAMPLE_STEP: usize = 41;

/// The hits and scores that decide a verdict.
fn names(report: &Report) -> Vec<(String, f64)> {
    let hits = report.hits.iter();
    hits.map(|hit| (hit.name.to_string(), hit.score)).collect()
}

fn settings() -> RulesSettings {
    RulesSettings {
        // Without prefilters a scan takes long in unoptimised builds.
        max_time: gatepost_settings::Period::seconds(600),
        ..RulesSettings::default()
    }
}

fn compare(filtered: &RuleSet, plain: &RuleSet, name: &str, message: &[u8]) -> usize {
    for explain in [false, true] {
        let context = ScanContext {
            explain,
            ..ScanContext::default()
        };
        let (one, other) = (
            filtered.scan(message, &context),
            plain.scan(message, &context),
        );
        // A pattern can reach its limit with prefilters and not without, or the reverse.
        if one.limited.is_empty() && other.limited.is_empty() {
            assert_eq!(names(&one), names(&other), "{name}");
        }
        if explain {
            let texts = |report: &Report| -> Vec<_> {
                report.hits.iter().map(|hit| hit.matched.clone()).collect()
            };
            assert_eq!(texts(&one), texts(&other), "{name}");
            return one.hits.len();
        }
    }
    0
}

#[test]
fn filtered_and_plain_scans_agree_on_the_public_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = std::fs::read_to_string(root.join("tests/corpus-list.txt"));
    let list = list.expect("the list of messages is there");
    let rules = [PathBuf::from("/usr/share/spamassassin")];
    let (filtered, _) = RuleSet::load(&rules, &settings());
    let (plain, _) = without_prefilters(|| RuleSet::load(&rules, &settings()));
    let mut hits = 0;
    for id in list.lines().step_by(SAMPLE_STEP) {
        let path = root.join(format!(".corpora/spamassassin/{id}.txt"));
        let message = std::fs::read(&path);
        let message = message.expect("the public corpus is there; tests/fetch-corpus fetches it");
        hits += compare(&filtered, &plain, id, &message);
    }
    assert!(hits > 100, "{hits}");
}

/// Rules of each kind that counts or places matches, on texts made of what they look for.
#[test]
fn filtered_and_plain_scans_agree_on_crowded_texts() {
    let rules = r"
body     ONE       /viagra/i
body     MANY      /free\s+(?:money|offer)/i
tflags   MANY      multiple maxhits=3
body     NOSUBJECT /subject/
tflags   NOSUBJECT nosubject
body     FAR       /first.{0,60}last/
body     OPTIONAL  /(?:your\s|my\s){0,3}(?:nick)?name:/
body     BEHIND    /(?<!not )cheap/
body     ENDS      /order now\s*$/
body     STARTS    /^dear (?:friend|customer)/i
rawbody  RAW       /<b>bold<\/b>/
header   HEAD      Subject =~ /lottery|winner/
header   NEGATED   Subject !~ /lottery/
header   UNSET     X-None =~ /unset/ [if-unset: unset]
header   OTHER     Subject =~ /free/
header   ANOTHER   Subject =~ /subject/
header   THIRD     Subject =~ /[0-9]{4}/
uri      LINK      /example\.com\/[a-z]+\d/
body     SIX       /\d{6}/
body     WIDE      /alpha[^.]{0,200}omega\b/
meta     BOTH      (ONE && !NEGATED) || MANY > 2
meta     NONE      !ONE && !MANY
";
    let settings = settings();
    let load = || RuleSet::from_text("test.cf", rules.as_bytes(), &settings);
    let (filtered, problems) = load();
    assert!(problems.is_empty(), "{problems:?}");
    let (plain, _) = without_prefilters(load);
    let words = [
        "viagra",
        "Free  Money",
        "free",
        "offer",
        "subject",
        "first",
        "last",
        "your my name:",
        "nickname:",
        "not cheap",
        "cheap",
        "order now",
        "\n\n",
        "Dear Friend",
        "<b>bold</b>",
        "123456",
        "1234",
        "http://example.com/abc1",
        "alpha",
        "omega",
        "omegas",
        ".",
        "lottery",
    ];
    let mut random = 7u64;
    let mut word = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        words[(random >> 33) as usize % words.len()]
    };
    let mut hits = 0;
    for number in 0..400 {
        let subject: Vec<&str> = (0..number % 4).map(|_| word()).collect();
        let body: Vec<&str> = (0..number % 50).map(|_| word()).collect();
        let subject = subject.join(" ").replace('\n', " ");
        let message = format!("Subject: {subject}\n\n{}\n", body.join(" "));
        hits += compare(&filtered, &plain, &message, message.as_bytes());
    }
    assert!(hits > 1000, "{hits}");
}

/// A match after many offsets that begin none.
#[test]
fn a_match_after_many_failed_offsets_is_found() {
    let rules = r"
body     NEAR      /viagra[^!]{0,20}!\d/
body     BEFORE    /\w{0,40}viagra!\d/
rawbody  RAW       /viagra[^!]{0,20}!\d/
full     FULL      /viagra[^!]{0,20}!\d/
header   HEAD      X-Words =~ /viagra[^!]{0,20}!\d/
header   NEGATED   X-Words !~ /viagra[^!]{0,20}!\d/
";
    let settings = settings();
    let load = || RuleSet::from_text("test.cf", rules.as_bytes(), &settings);
    let (filtered, problems) = load();
    assert!(problems.is_empty(), "{problems:?}");
    let (plain, _) = without_prefilters(load);
    for repetitions in [0, 10, 600, 2000] {
        let words = "viagra, ".repeat(repetitions) + "viagra!7";
        let text = words.replace('!', "");
        for words in [words, text] {
            let message = format!("X-Words: {words}\n\n{words}\n");
            let hits = compare(&filtered, &plain, &message, message.as_bytes());
            let expected = if words.contains('!') { 5 } else { 1 };
            assert_eq!(hits, expected, "after {repetitions}");
        }
    }
}
