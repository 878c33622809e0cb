//! The tags of templates: `_SCORE_`, `_YESNO(a,b)_`, `_SUMMARY_` and so on.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::wrap::wrap;
use super::{Hit, Report};
use crate::language::plugins::LANGUAGE_VERSION_TEXT;

/// Stars in a row beyond which the level says nothing more.
const STARS_MAX: usize = 50;
/// The day of the release whose language this engine speaks.
const LANGUAGE_RELEASE: &str = "2024-03-25";
/// Where descriptions begin in the table of rules.
const DESCRIPTION_COLUMN: usize = 28;

/// Fills in a template. Words that look like tags and are none stay as they are.
pub(super) fn fill(template: &str, report: &Report) -> String {
    let mut filled = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some(start) = rest.find('_') {
        let (before, from_tag) = rest.split_at(start);
        filled.push_str(before);
        let known = tag(from_tag)
            .and_then(|(name, argument, length)| Some((value(name, argument, report)?, length)));
        if let Some((text, length)) = known {
            filled.push_str(&text);
            rest = from_tag.get(length..).unwrap_or_default();
        } else {
            filled.push('_');
            rest = from_tag.get(1..).unwrap_or_default();
        }
    }
    filled.push_str(rest);
    filled
}

/// The tag at the beginning of a text: name, argument, length.
fn tag(text: &str) -> Option<(&str, Option<&str>, usize)> {
    let inner = text.get(1..)?;
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let run = inner.bytes().take_while(|byte| is_name(byte)).count();
    if inner.as_bytes().get(run) == Some(&b'(') {
        let end = inner.get(run..)?.find(")_")? + run;
        let argument = inner.get(run + 1..end)?;
        return Some((inner.get(..run)?, Some(argument), end + 3));
    }
    // Names may hold single underscores; the last one closes the tag.
    let run = inner.get(..run)?;
    let end = run.rfind('_').filter(|&end| end > 0)?;
    // Two tags side by side: the first underscore that closes a known name wins.
    let first = run.find('_').unwrap_or(end);
    let end = if KNOWN.contains(&run.get(..first)?) {
        first
    } else {
        end
    };
    Some((run.get(..end)?, None, end + 2))
}

/// Names that may stand right before another tag.
const KNOWN: &[&str] = &[
    "YESNO",
    "YESNOCAPS",
    "SCORE",
    "REQD",
    "HITS",
    "STARS",
    "TESTS",
    "VERSION",
    "SUMMARY",
    "PREVIEW",
    "HOSTNAME",
    "REPORT",
];

fn value<'r>(name: &str, argument: Option<&'r str>, report: &'r Report) -> Option<Cow<'r, str>> {
    let options = &report.options;
    Some(match name {
        "YESNO" => {
            let (yes, no) = argument.unwrap_or("Yes,No").split_once(',')?;
            if report.is_spam() { yes } else { no }.into()
        }
        "YESNOCAPS" => {
            let (yes, no) = argument.unwrap_or("YES,NO").split_once(',')?;
            if report.is_spam() { yes } else { no }.into()
        }
        "SCORE" | "HITS" => pad(score(report), argument.unwrap_or_default()).into(),
        "REQD" => format!("{:.1}", report.required).into(),
        "STARS" => argument.unwrap_or("*").repeat(stars(report.score)).into(),
        "TESTS" => names(report, argument.unwrap_or(",")).into(),
        "TESTSSCORES" => names_with_scores(report, argument.unwrap_or(",")).into(),
        "SUBTESTS" | "SUBTESTSCOLLAPSED" => "none".into(),
        "SUMMARY" => summary(report).into(),
        "REPORT" => format!("\n{}", terse(report)).into(),
        "PREVIEW" => wrap(&report.preview, 18, "   ", 75).into(),
        "HOSTNAME" if options.report_hostname.is_empty() => HOST_NAME.as_str().into(),
        "HOSTNAME" => options.report_hostname.as_str().into(),
        "CONTACTADDRESS" => options.report_contact.as_str().into(),
        "VERSION" => format!("{LANGUAGE_VERSION_TEXT}{}", options.version_tag).into(),
        "SUBVERSION" => LANGUAGE_RELEASE.into(),
        "SC" => report
            .ending
            .as_ref()
            .and_then(|ending| ending.rule.as_ref())
            .map_or("no".into(), |rule| {
                let class = report.ending.as_ref().map_or("no", |ending| ending.class);
                format!("{rule} ({class})").into()
            }),
        "SCRULE" => report
            .ending
            .as_ref()
            .and_then(|ending| ending.rule.as_deref())
            .unwrap_or("none")
            .into(),
        "SCTYPE" => report
            .ending
            .as_ref()
            .map_or("no", |ending| ending.class)
            .into(),
        "AUTOLEARN" => report.autolearn.name().into(),
        "BAYES" => "0.5".into(),
        name => {
            let known = report.tags.iter().find(|(known, _)| known == name)?;
            known.1.as_str().into()
        }
    })
}

/// The sum in tenths; never shown as reaching the threshold when it does not.
fn score(report: &Report) -> String {
    let shown = format!("{:.1}", report.score);
    let required = format!("{:.1}", report.required);
    if !report.is_spam() && shown == required {
        return format!("{:.1}", report.required - 0.1);
    }
    shown
}

/// Pads on the left: `_SCORE(00)_` gives two digits before the point at least.
fn pad(text: String, padding: &str) -> String {
    let wanted = padding.len() + 3;
    match padding.chars().next() {
        Some(filler @ ('0' | ' ')) if text.len() < wanted => {
            let missing = (wanted - text.len()).min(padding.len());
            format!("{}{text}", filler.to_string().repeat(missing))
        }
        _ => text,
    }
}

fn stars(score: f64) -> usize {
    // A cast of a negative number gives 0, which is meant.
    (score as usize).min(STARS_MAX)
}

fn names(report: &Report, separator: &str) -> String {
    match report.sorted_names() {
        names if names.is_empty() => "none".to_owned(),
        names => names.join(separator),
    }
}

fn names_with_scores(report: &Report, separator: &str) -> String {
    let mut names: Vec<String> = report
        .hits
        .iter()
        .map(|hit| format!("{}={}", hit.name, hit.score))
        .collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.sort_unstable();
    names.join(separator)
}

/// A score in four columns.
fn points(score: f64) -> String {
    if score.abs() >= 10.0 {
        format!("{score:4.0}")
    } else {
        format!("{score:4.1}")
    }
}

/// The table of rules.
fn summary(report: &Report) -> String {
    let mut table = String::new();
    for Hit {
        name,
        score,
        description,
        area,
        ..
    } in &report.hits
    {
        let points = points(*score);
        let column = 3 + name.len() + points.len() + area.len();
        let indent = " ".repeat(DESCRIPTION_COLUMN);
        let text = wrap(description, column, &indent, report.options.wrap_width);
        let _ = writeln!(table, "{points} {name:<22} {area}{text}");
    }
    table
}

/// The table of rules for a header field.
fn terse(report: &Report) -> String {
    let mut table = String::new();
    for Hit {
        name,
        score,
        description,
        area,
        ..
    } in &report.hits
    {
        let points = points(*score);
        let column = 4 + name.len() + points.len() + area.len();
        let text = wrap(description, column, "*      ", report.options.wrap_width);
        let _ = writeln!(table, "* {points} {name} {area}{text}");
    }
    table
}

/// The machine's own name, as it was when first asked for.
static HOST_NAME: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
});

#[cfg(test)]
mod tests {
    use super::*;

    fn report(score: f64) -> Report {
        Report {
            score,
            required: 5.0,
            ..Report::default()
        }
    }

    #[test]
    fn tags_are_filled_in() {
        for (template, text) in [
            ("a _SCORE_ b _REQD_", "a 4.9 b 5.0"),
            ("_YESNO_, _YESNO(a b,c d)_", "No, c d"),
            ("_STARS(*)_|_STARS(x)_", "****|xxxx"),
            ("_SCORE(00)_ _TESTS_", "004.9 none"),
            ("_NOTHING_ _ __ snake_case", "_NOTHING_ _ __ snake_case"),
            ("_SCORE__REQD_", "4.95.0"),
            ("has_YESNO(, NOT)_ x", "has NOT x"),
        ] {
            assert_eq!(fill(template, &report(4.9)), text, "{template}");
        }
    }

    #[test]
    fn a_sum_just_below_the_threshold_is_not_rounded_up_to_it() {
        assert_eq!(fill("_SCORE_", &report(4.97)), "4.9");
        assert_eq!(fill("_SCORE_", &report(5.0)), "5.0");
    }
}
