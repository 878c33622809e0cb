//! Values of template tags: `_SCORE_`, `_YESNO(a,b)_`, `_SUMMARY_` and so on.
//!
//! A tag of SpamAssassin is never printed literally: a tag without a value, such as that of a
//! plugin that does not run, is empty, as in SpamAssassin. Words that only look like tags are
//! unchanged.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::Report;
use super::table;
use super::wrap::{FoldingPoint, LineLayout};
use crate::language::plugins::LANGUAGE_VERSION_TEXT;
use crate::tags::{Tag, TagTemplatePart, message, pieces};

/// The most stars of the level.
const STARS_MAX: usize = 50;
/// The date of the release whose language this engine implements.
const LANGUAGE_RELEASE: &str = "2024-03-25";
/// The title before the preview in the line of the report in which it begins.
const PREVIEW_TITLE: &str = "Content preview:  ";
/// The width of the preview's lines.
const PREVIEW_WIDTH: usize = 75;

/// Tags that are empty unless they have a value.
const EMPTY: [&str; 29] = [
    "ASN",
    "ASNCIDR",
    "AWL",
    "AWLCOUNT",
    "AWLMEAN",
    "AWLPRESCORE",
    "BAYESTC",
    "BAYESTCHAMMY",
    "BAYESTCLEARNED",
    "BAYESTCSPAMMY",
    "DCCB",
    "DCCR",
    "DCCREP",
    "DKIMDOMAIN",
    "DKIMIDENTITY",
    "DKIMSELECTOR",
    "EXTRACTTEXTCHARS",
    "EXTRACTTEXTEXTENSIONS",
    "EXTRACTTEXTFLAGS",
    "EXTRACTTEXTTOOLS",
    "EXTRACTTEXTTYPES",
    "EXTRACTTEXTURIS",
    "EXTRACTTEXTWORDS",
    "HAMMYTOKENS",
    "LANGUAGES",
    "PYZOR",
    "RBL",
    "SPAMMYTOKENS",
    "TOKENSUMMARY",
];

/// Fills in a template.
pub(super) fn fill(template: &str, report: &Report) -> String {
    let mut filled = String::with_capacity(template.len() * 2);
    for piece in pieces(template) {
        match piece {
            TagTemplatePart::Text(text) => filled.push_str(text),
            TagTemplatePart::Tag(tag) => {
                filled.push_str(&value(&tag, report).unwrap_or(tag.text.into()));
            }
        }
    }
    filled
}

fn value<'t>(tag: &Tag<'t>, report: &Report) -> Option<Cow<'t, str>> {
    // An empty argument is none.
    let argument = tag.argument.filter(|argument| !argument.is_empty());
    let separator = argument.unwrap_or(",");
    let options = &report.options;
    Some(match tag.name {
        "YESNO" => yes_no(tag, report).into(),
        "YESNOCAPS" => yes_no(tag, report).to_uppercase().into(),
        "SCORE" | "HITS" => pad(score(report), argument.unwrap_or_default()).into(),
        "REQD" => format!("{:.1}", report.required).into(),
        "STARS" => argument.unwrap_or("*").repeat(stars(report.score)).into(),
        "TESTS" => or_none(report.sorted_names().join(separator)).into(),
        "TESTSSCORES" => or_none(names_with_scores(report).join(separator)).into(),
        "SUBTESTS" => or_none(sub_rules(report).join(separator)).into(),
        "SUBTESTSCOLLAPSED" => or_none(sub_rules_counted(report)).into(),
        "SUMMARY" => table::summary(report).into(),
        "REPORT" => format!("\n{}", table::terse(report)).into(),
        "PREVIEW" => preview(report).into(),
        "SUBJPREFIX" => report.subject_prefix.clone().into(),
        "HOSTNAME" if options.report_hostname.is_empty() => HOST_NAME.as_str().into(),
        "HOSTNAME" => options.report_hostname.clone().into(),
        "REMOTEHOSTNAME" => "localhost".into(),
        "REMOTEHOSTADDR" => "127.0.0.1".into(),
        "CONTACTADDRESS" => options.report_contact.clone().into(),
        "VERSION" => format!("{LANGUAGE_VERSION_TEXT}{}", options.version_tag).into(),
        "SUBVERSION" => LANGUAGE_RELEASE.into(),
        "RULESVERSION" => options.rules_versions.join(",").into(),
        "DATE" => now().into(),
        "TIMING" => format!("total {} ms", report.time.as_millis()).into(),
        "SC" | "SCRULE" | "SCTYPE" => ending(tag.name, report).into(),
        "AUTOLEARN" => autolearn(report).into(),
        "AUTOLEARNSCORE" => report.autolearn_points.to_string().into(),
        "BAYES" => match report.bayes {
            Some(judgement) => format!("{:.4}", judgement.probability).into(),
            None => "0.5".into(),
        },
        name if message::is_of_message(name) => found(report, tag.text)?.into(),
        name => match (bayes(name, report), found(report, name)) {
            (Some(text), _) | (None, Some(text)) => text.into(),
            (None, None) if EMPTY.contains(&name) => "".into(),
            (None, None) => return None,
        },
    })
}

/// The value that the message, a rule or the network gave a tag.
fn found(report: &Report, name: &str) -> Option<String> {
    let mut tags = report.tags.iter();
    tags.find(|(known, _)| known == name)
        .map(|(_, value)| value.clone())
}

fn yes_no<'t>(tag: &Tag<'t>, report: &Report) -> &'t str {
    let argument = tag.argument.filter(|argument| !argument.is_empty());
    let (yes, no) = argument.map_or((None, None), |argument| match argument.split_once(',') {
        Some((yes, no)) => (Some(yes), Some(no)),
        None => (Some(argument), None),
    });
    if report.is_spam() {
        yes.unwrap_or("Yes")
    } else {
        no.unwrap_or("No")
    }
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

/// Pads on the left: `_SCORE(00)_` has at least two digits before the point.
fn pad(text: String, padding: &str) -> String {
    let wanted = padding.len() + 3;
    let is_padding = ["0", " "]
        .iter()
        .any(|filler| padding.trim_matches(|one| filler.contains(one)).is_empty());
    if !is_padding || text.len() >= wanted {
        return text;
    }
    let missing = (wanted - text.len()).min(padding.len());
    format!("{}{text}", padding.get(..missing).unwrap_or_default())
}

fn stars(score: f64) -> usize {
    // A cast of a negative number yields 0, which is intended.
    (score as usize).min(STARS_MAX)
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        return "none".to_owned();
    }
    text
}

fn names_with_scores(report: &Report) -> Vec<String> {
    let mut hits: Vec<_> = report.hits.iter().collect();
    hits.sort_by(|one, other| one.name.cmp(&other.name));
    let text = |hit: &&super::Hit| format!("{}={}", hit.name, hit.score);
    hits.iter().map(text).collect()
}

/// The sub-rules that hit, once for each hit.
fn sub_rules(report: &Report) -> Vec<&str> {
    let repeated = report
        .sub_rules
        .iter()
        .flat_map(|(name, hits)| std::iter::repeat_n(&**name, *hits as usize));
    repeated.collect()
}

fn sub_rules_counted(report: &Report) -> String {
    let counted = report.sub_rules.iter().map(|(name, hits)| match hits {
        1 => name.to_string(),
        hits => format!("{name}({hits})"),
    });
    counted.collect::<Vec<_>>().join(",")
}

fn preview(report: &Report) -> String {
    let lines = LineLayout {
        first: PREVIEW_TITLE,
        indent: "  ",
        length_max: PREVIEW_WIDTH,
        overflows: true,
    };
    let text = format!("{} ", report.preview);
    let folded = lines.fold(&text, FoldingPoint::AtBlanks);
    folded
        .strip_prefix(PREVIEW_TITLE)
        .map_or_else(|| folded.clone(), str::to_owned)
}

fn autolearn(report: &Report) -> String {
    let name = report.autolearn.name();
    match &report.autolearn_force {
        Some(force) => format!("{name} autolearn_force={force}"),
        None => name.to_owned(),
    }
}

fn ending(name: &str, report: &Report) -> String {
    let class = report.ending.as_ref().map_or("no", |ending| ending.class);
    let rule = report.ending.as_ref().map(|ending| &ending.rule);
    match (name, rule) {
        ("SCTYPE", _) => class.to_owned(),
        ("SCRULE", Some(Some(rule))) => rule.to_string(),
        ("SCRULE", _) => "none".to_owned(),
        (_, Some(Some(rule))) => format!("{rule} ({class})"),
        _ => "no".to_owned(),
    }
}

/// The counts of Bayes; `None` if it did not judge.
fn bayes(name: &str, report: &Report) -> Option<String> {
    let judgement = report.bayes.as_ref()?;
    let (known, deciding) = (judgement.known, judgement.spammy + judgement.hammy);
    Some(match name {
        "BAYESTC" => judgement.tokens.to_string(),
        "BAYESTCLEARNED" => known.to_string(),
        "BAYESTCSPAMMY" => judgement.spammy.to_string(),
        "BAYESTCHAMMY" => judgement.hammy.to_string(),
        // Tokens are kept as hashes.
        "HAMMYTOKENS" | "SPAMMYTOKENS" => "Tokens not available.".to_owned(),
        "TOKENSUMMARY" => format!(
            "Tokens: new, {}; hammy, {}; neutral, {}; spammy, {}.",
            judgement.tokens.saturating_sub(known),
            judgement.hammy,
            known.saturating_sub(deciding),
            judgement.spammy,
        ),
        _ => return None,
    })
}

/// The time now (RFC 5322, section 3.3), in universal time.
fn now() -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] +0000"
    );
    let now = time::OffsetDateTime::now_utc();
    now.format(format).unwrap_or_default()
}

/// The host name of the machine at the time of its first use.
static HOST_NAME: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
});

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn tags_are_filled_in() {
        for (template, text) in [
            ("a _SCORE_ b _REQD_", "a 4.9 b 5.0"),
            ("_YESNO_, _YESNO(a b,c d)_", "No, c d"),
            ("_YESNO(x)_ _YESNOCAPS(,z)_", "No Z"),
            ("_STARS(*)_|_STARS(x)_", "****|xxxx"),
            ("_SCORE(00)_ _TESTS_", "004.9 none"),
            ("_NOTHING_ _ __ snake_case", "_NOTHING_ _ __ snake_case"),
            ("_SCORE__REQD_", "4.95.0"),
            ("has_YESNO(, NOT)_ x", "has NOT x"),
            ("[_DCCB_][_BAYES_]", "[][0.5]"),
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
