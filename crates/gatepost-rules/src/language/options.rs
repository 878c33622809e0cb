//! Directives for reports and rewritten mail (`report`, `add_header`, `rewrite_header`), and those
//! that load plugins.

// All functions have the signature of the directive table, also those that cannot fail.
#![allow(clippy::unnecessary_wraps)]

use super::line::{LineProblem, LoadedLines, RuleLine};
use super::rules::LineOutcome;
use crate::shortcircuit::ShortcircuitScores;

/// The threshold of folders without one.
pub(crate) const REQUIRED_SCORE_DEFAULT: f64 = 5.0;

/// The options of reports.
#[derive(Debug, Clone)]
pub(crate) struct ReportOptions {
    /// The score from which a message is spam.
    pub(crate) required_score: f64,
    /// The report's template with LF line ends; empty if the folder has none.
    pub(crate) report: String,
    /// The text before the original of a wrapped spam message.
    pub(crate) unsafe_report: String,
    /// The contact address in reports.
    pub(crate) report_contact: String,
    /// The host name in reports; the system's if empty.
    pub(crate) report_hostname: String,
    /// Whether spam is wrapped (1, 2) or only gets header fields (0).
    pub(crate) report_safe: u8,
    /// The width of wrapped text in header fields.
    pub(crate) wrap_width: usize,
    /// Fields added to ham: the name without `X-Spam-`, and the template.
    pub(crate) ham_fields: Vec<(String, String)>,
    /// Fields added to spam.
    pub(crate) spam_fields: Vec<(String, String)>,
    /// Texts added before From, To and Subject of spam.
    pub(crate) rewrites: Vec<(String, String)>,
    /// Whether long fields are folded.
    pub(crate) fold_fields: bool,
    /// A suffix of the version in reports.
    pub(crate) version_tag: String,
    /// The conditions under which a scan ends early.
    pub(crate) shortcircuit: ShortcircuitScores,
    /// The versions in the `# UPDATE version` lines of rule files, by file.
    pub(crate) rules_versions: Vec<String>,
    /// The tags of templates whose values are in the message itself.
    pub(crate) wanted_tags: Vec<String>,
    /// Whether a template lists the sub-rules that hit.
    pub(crate) wants_sub_rules: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        let fields = |spam: bool| {
            let mut fields = vec![("Checker-Version", "Gatepost _VERSION_ on _HOSTNAME_")];
            if spam {
                fields.push(("Flag", "_YESNOCAPS_"));
            }
            fields.push(("Level", "_STARS(*)_"));
            fields.push((
                "Status",
                "_YESNO_, score=_SCORE_ required=_REQD_ tests=_TESTS_ autolearn=_AUTOLEARN_ \
                 version=_VERSION_",
            ));
            let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
            fields.into_iter().map(owned).collect()
        };
        Self {
            required_score: REQUIRED_SCORE_DEFAULT,
            report: String::new(),
            unsafe_report: String::new(),
            report_contact: "the administrator of that system".to_owned(),
            report_hostname: String::new(),
            report_safe: 1,
            wrap_width: 75,
            ham_fields: fields(false),
            spam_fields: fields(true),
            rewrites: Vec::new(),
            fold_fields: true,
            version_tag: String::new(),
            shortcircuit: ShortcircuitScores::default(),
            rules_versions: Vec::new(),
            wanted_tags: Vec::new(),
            wants_sub_rules: false,
        }
    }
}

pub(super) fn required_score(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.value_text()?;
    let score = value.parse().ok().filter(|score: &f64| score.is_finite());
    loaded.definitions.options.required_score = score.ok_or_else(|| {
        LineProblem::invalid(format!("{value:?} is not a number"), "write a number")
    })?;
    Ok(())
}

/// The text of a line of a template: quotes preserve its blanks.
fn template_line(line: &RuleLine<'_>) -> String {
    let text = String::from_utf8_lossy(line.value).into_owned();
    let quoted = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    format!("{}\n", quoted.unwrap_or(&text))
}

pub(super) fn report(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.options.report += &template_line(line);
    Ok(())
}

pub(super) fn clear_report(loaded: &mut LoadedLines<'_>, _: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.options.report.clear();
    Ok(())
}

pub(super) fn unsafe_report(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.options.unsafe_report += &template_line(line);
    Ok(())
}

pub(super) fn clear_unsafe_report(loaded: &mut LoadedLines<'_>, _: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.options.unsafe_report.clear();
    Ok(())
}

pub(super) fn report_contact(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let contact = line.value_text()?;
    // Debian's files contain this placeholder where the administrator did not replace it.
    if contact != "@@CONTACT_ADDRESS@@" {
        loaded.definitions.options.report_contact = contact;
    }
    Ok(())
}

pub(super) fn report_hostname(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.options.report_hostname = line.value_text()?;
    Ok(())
}

pub(super) fn report_safe(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let options = &mut loaded.definitions.options;
    options.report_safe = match line.value {
        b"0" => 0,
        b"1" => 1,
        b"2" => 2,
        _ => return Err(LineProblem::invalid("report_safe is 0, 1 or 2", "")),
    };
    let has_report = |(name, _): &(String, String)| name.eq_ignore_ascii_case("Report");
    if options.report_safe == 0 && !options.spam_fields.iter().any(has_report) {
        let field = ("Report".to_owned(), "_REPORT_".to_owned());
        options.spam_fields.push(field);
    }
    Ok(())
}

pub(super) fn report_wrap_width(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.value_text()?;
    loaded.definitions.options.wrap_width = value
        .parse()
        .map_err(|_| LineProblem::invalid(format!("{value:?} is not a width"), "write a number"))?;
    Ok(())
}

pub(super) fn fold_headers(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.options.fold_fields = line.flag()?;
    Ok(())
}

pub(super) fn ignore_always_matching(
    loaded: &mut LoadedLines<'_>,
    line: &RuleLine<'_>,
) -> LineOutcome {
    loaded.definitions.ignores_always_matching = line.flag()?;
    Ok(())
}

pub(super) fn version_tag(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let tag = line.value_text()?;
    loaded.definitions.options.version_tag = format!("-{}", tag.to_ascii_lowercase());
    Ok(())
}

/// The lists that `ham`, `spam` or `all` denotes.
fn field_lists<'l>(
    loaded: &'l mut LoadedLines<'_>,
    which: &str,
) -> Result<Vec<&'l mut Vec<(String, String)>>, LineProblem> {
    let options = &mut loaded.definitions.options;
    match which {
        "ham" => Ok(vec![&mut options.ham_fields]),
        "spam" => Ok(vec![&mut options.spam_fields]),
        "all" => Ok(vec![&mut options.ham_fields, &mut options.spam_fields]),
        _ => Err(LineProblem::invalid(
            format!("{which:?} is none of ham, spam and all"),
            "write: add_header all Name text",
        )),
    }
}

pub(super) fn add_header(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word_text()?;
    let (name, text) = value.split_once(char::is_whitespace).ok_or_else(|| {
        LineProblem::invalid(
            "the field's text is missing",
            "write: add_header all Name text",
        )
    })?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !name.bytes().all(is_name) {
        return Err(LineProblem::invalid(
            format!("{name:?} cannot name a field"),
            "",
        ));
    }
    let text = text.trim();
    let quoted = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let text = unescape(quoted.unwrap_or(text));
    for fields in field_lists(loaded, line.first_word())? {
        fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        fields.push((name.to_owned(), text.clone()));
    }
    Ok(())
}

/// `\n`, `\t` and `\\`; a backslash before anything else removes it.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('\\') => plain.push('\\'),
            _ => {}
        }
    }
    plain
}

pub(super) fn remove_header(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let name = line.after_first_word_text()?;
    for fields in field_lists(loaded, line.first_word())? {
        fields.retain(|(known, _)| {
            !known.eq_ignore_ascii_case(name.trim()) || known == "Checker-Version"
        });
    }
    Ok(())
}

pub(super) fn clear_headers(loaded: &mut LoadedLines<'_>, _: &RuleLine<'_>) -> LineOutcome {
    let options = &mut loaded.definitions.options;
    for fields in [&mut options.ham_fields, &mut options.spam_fields] {
        fields.retain(|(name, _)| name.eq_ignore_ascii_case("Checker-Version"));
    }
    Ok(())
}

pub(super) fn rewrite_header(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let field = line.first_word();
    let name = ["Subject", "From", "To"]
        .into_iter()
        .find(|name| name.eq_ignore_ascii_case(field))
        .ok_or_else(|| {
            LineProblem::invalid(
                format!("{field:?} cannot be rewritten"),
                "name Subject, From or To",
            )
        })?;
    let rewrites = &mut loaded.definitions.options.rewrites;
    rewrites.retain(|(known, _)| known != name);
    if let Ok(text) = line.after_first_word_text() {
        // A parenthesis would end the comment that contains the text.
        let text = match name {
            "Subject" => text,
            _ => text.replace('(', "[").replace(')', "]"),
        };
        rewrites.push((name.to_owned(), text));
    }
    Ok(())
}

pub(super) fn load_plugin(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let module = line.first_word();
    if module.is_empty() {
        return Err(LineProblem::missing());
    }
    if module.ends_with("::AWL") {
        loaded.definitions.learning.reputation.awl.is_loaded = true;
    }
    // Its links in documents count as links of the message, whether or not a rule of it is there.
    if module.ends_with("::OLEVBMacro") {
        loaded.definitions.configuration.eval.office.is_loaded = true;
    }
    loaded.plugins.load(module).map_err(|_| LineProblem {
        severity: crate::Severity::Warning,
        cause: "plugin not here",
        reason: format!("the plugin {module} is not part of this engine"),
        fix: "its rules do not run".to_owned(),
    })
}

pub(super) fn try_plugin(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    // An unknown plugin is not a problem: `tryplugin` permits it.
    let _ = loaded.plugins.load(line.first_word());
    Ok(())
}

pub(super) fn enable_compatibility(
    loaded: &mut LoadedLines<'_>,
    line: &RuleLine<'_>,
) -> LineOutcome {
    let flag = line.value_text()?;
    loaded.plugins.enable_compatibility(&flag);
    Ok(())
}
