//! Patterns that exceed their limit of steps.

use std::fmt::Write as _;

use gatepost_mail::MailLimits;
use gatepost_rules::{Report, RuleSet, RulesSettings, ScanContext};
use gatepost_settings::{ByteSize, Period};

use super::{TIME_MAX, computed, held, html, numbered, plain};

/// On any machine, the pattern takes more steps than it may, and is named; others still run.
#[test]
fn rules_at_their_limits_are_named() {
    let text = r"
body     HEAVY      /^(?=(?:a|aa)+$)/
body     HEAVY_TOO  /order (?=(?:a|aa)+$)/
rawbody  HEAVY_RAW  /^(?=(?:a|aa)+$)/
header   HEAVY_HEAD Subject =~ /^(?:a|aa)+$/
header   NOT_HEAVY  Subject !~ /^(?:a|aa)+$/
full     HEAVY_FULL /\n\n(?=(?:a|aa)+$)/
body     LIGHT      /now/
meta     BOTH       LIGHT && !HEAVY
";
    let (rules, problems) =
        RuleSet::from_text("test.cf", text.as_bytes(), &RulesSettings::default());
    assert!(problems.is_empty(), "{problems:?}");
    let row = "a".repeat(1000);
    let message = format!("Subject: {row}!\n\n{row}!\n\norder {row}! now\n");
    let report = rules.scan(message.as_bytes(), &ScanContext::default());
    let mut limited: Vec<&str> = report.limited.iter().map(AsRef::as_ref).collect();
    limited.sort_unstable();
    let heavy = [
        "HEAVY",
        "HEAVY_FULL",
        "HEAVY_HEAD",
        "HEAVY_RAW",
        "HEAVY_TOO",
        "NOT_HEAVY",
    ];
    assert_eq!(limited, heavy);
    let mut hits: Vec<&str> = report.hits.iter().map(|hit| &*hit.name).collect();
    hits.sort_unstable();
    assert_eq!(hits, ["BOTH", "GATEPOST_GIVEN_UP", "LIGHT"]);
    assert!(report.given_up.steps && !report.given_up.time && !report.given_up.size);
}

const GTUBE: &str = "body GTUBE /GTUBE-STANDARD/\nscore GTUBE 1000\n";

fn judge(text: &str, settings: &RulesSettings, message: &[u8]) -> Report {
    let (rules, problems) = RuleSet::from_text("test.cf", text.as_bytes(), settings);
    assert!(problems.is_empty(), "{problems:?}");
    rules.scan(message, &ScanContext::default())
}

/// A part beyond a limit is not judged, but this is always reported.
#[test]
fn a_limit_that_skips_content_or_rules_is_a_hit() {
    let html = html(&format!("{} GTUBE-STANDARD", "<".repeat(5000)));
    let whole = judge(GTUBE, &RulesSettings::default(), &html);
    assert_eq!(whole.symbols(), "GTUBE");
    let mail = MailLimits {
        html_size_max: ByteSize(4000),
        ..MailLimits::default()
    };
    let short = |settings| judge(GTUBE, &settings, &html);
    let cut = short(RulesSettings {
        mail,
        ..RulesSettings::default()
    });
    assert_eq!(cut.symbols(), "GATEPOST_GIVEN_UP");
    assert_eq!(cut.given_up.to_string(), "size");
    let cut = short(RulesSettings {
        max_size: ByteSize(3000),
        ..RulesSettings::default()
    });
    assert_eq!(cut.symbols(), "GATEPOST_GIVEN_UP");
    assert!((cut.score - 0.001).abs() < 1e-9, "visible, without weight");

    // Enough rules that the clock is read.
    let many = numbered(1000, |all, number| {
        let _ = writeln!(
            all,
            "header H{number} X-{number} !~ /a/\nbody B{number} /GTUBE.{number}/"
        );
    });
    let late = judge(
        &format!("{many}{GTUBE}"),
        &RulesSettings {
            max_time: Period::milliseconds(0),
            ..RulesSettings::default()
        },
        &plain(&"GTUBE-STANDARD ".repeat(2000)),
    );
    assert!(
        late.symbols().contains("TIME_LIMIT_EXCEEDED"),
        "{}",
        late.symbols()
    );
    assert!(late.given_up.time && !late.limited.is_empty());
}

/// The rules that report a limit are scored as any others.
#[test]
fn rule_files_and_settings_score_what_was_given_up() {
    let cut = |text: &str, given_up_score| {
        let settings = RulesSettings {
            max_size: ByteSize(100),
            given_up_score,
            ..RulesSettings::default()
        };
        let report = judge(text, &settings, &plain(&"x\n".repeat(100)));
        (report.score, report.symbols())
    };
    let hit = || "GATEPOST_GIVEN_UP".to_owned();
    assert_eq!(cut("", 2.5), (2.5, hit()));
    assert_eq!(cut("score GATEPOST_GIVEN_UP 4\n", 2.5), (4.0, hit()));
    assert_eq!(
        cut("score GATEPOST_GIVEN_UP 0\n", 2.5),
        (0.0, String::new())
    );
}

/// 24 MB that were 24 million texts, with the text that every filter knows for spam after them.
#[test]
fn rows_of_brackets_are_bounded_and_reported() {
    const SIZE: usize = 24_000_000;
    let message = html(&format!("{}\nGTUBE-STANDARD\n", "<".repeat(SIZE)));
    let start = computed();
    let settings = RulesSettings::default();
    let (report, held) = held::most_held(|| judge(GTUBE, &settings, &message));
    let time = computed().checked_sub(start).unwrap_or_default();
    assert_eq!(report.symbols(), "GATEPOST_GIVEN_UP");
    assert!(time < TIME_MAX, "it took {time:?}");
    assert!(held < 4 * SIZE, "it held {held} bytes");
}
