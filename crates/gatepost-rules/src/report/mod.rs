//! The result of a scan, and its forms: as text, as header fields, as a rewritten message.

mod encoded_words;
pub(crate) mod given_up;
pub(crate) mod message_tags;
pub(crate) mod remove_markup;
mod rewrite;
mod table;
mod template;
mod wrap;

use std::sync::Arc;
use std::time::Duration;

use gatepost_learning::bayes::{Autolearn, BayesResult};
use gatepost_mail::Lines;
use gatepost_message::Authentication;

use crate::language::options::ReportOptions;
use crate::shortcircuit::ShortcircuitEnding;
pub use given_up::GivenUp;

/// The lines of the body in the preview, and its length in bytes.
const PREVIEW_LINES_MAX: usize = 3;
const PREVIEW_BYTES_MAX: usize = 200;

/// The report of folders without a template.
const REPORT_DEFAULT: &str = concat!(
    "Gatepost on \"_HOSTNAME_\" judged this message:\n",
    "_YESNO(it is probably spam,it is probably wanted)_.\n",
    "Questions: _CONTACTADDRESS_.\n",
    "\n",
    "Content preview:  _PREVIEW_\n",
    "\n",
    "Content analysis details:   (_SCORE_ points, _REQD_ required)\n",
    "\n",
    " pts rule name              description\n",
    "---- ---------------------- --------------------------------------------------\n",
    "_SUMMARY_\n",
);

/// One rule that matched.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The rule's name.
    pub name: Arc<str>,
    /// The score that it added.
    pub score: f64,
    /// Its description.
    pub description: Arc<str>,
    /// The part of the message that it examines, as reports print it before the description: `BODY:
    /// `, `RAW: `, `URI: `, `FULL: `, or nothing.
    pub area: &'static str,
    /// The text that matched, if [`crate::ScanContext::explain`] was set.
    pub matched: Option<Vec<u8>>,
}

/// The result of a scan.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The sum of the scores of all rules hit, rounded to a thousandth.
    pub score: f64,
    /// The score from which a message is spam.
    pub required: f64,
    /// The rules that matched, in the order in which reports list them; sub-rules
    /// (names that begin with `__`) are left out.
    pub hits: Vec<Hit>,
    /// Rules that reached a limit, so it is unknown whether they match.
    pub limited: Vec<Arc<str>>,
    /// Parts that limits ended early; each kind is among the hits too.
    pub given_up: GivenUp,
    /// The results of SPF, DKIM and DMARC, if rules used them.
    pub authentication: Vec<Authentication>,
    /// Whether the message was learned automatically, and as which class.
    pub autolearn: Autolearn,
    /// Whether a rule that hit is certain enough alone to learn from: `no`, or `yes` with the
    /// rules; `None` if that was not determined.
    pub(crate) autolearn_force: Option<String>,
    /// The points that decided about automatic learning.
    pub(crate) autolearn_points: f64,
    /// The result of Bayes, if it judged.
    pub(crate) bayes: Option<BayesResult>,
    /// Texts of rules in addition to their descriptions.
    pub(crate) notes: Vec<(Arc<str>, String)>,
    /// The sub-rules that hit, and how often, by name; only where a template lists them.
    pub(crate) sub_rules: Vec<(Arc<str>, u32)>,
    /// The time that the rules took.
    pub(crate) time: Duration,
    pub(crate) preview: String,
    /// The text that `subjprefix` of the rules adds before the subject; each prefix ends in a
    /// blank.
    pub(crate) subject_prefix: String,
    pub(crate) options: Arc<ReportOptions>,
    /// Tags of templates with values from rules and DNS.
    pub(crate) tags: Vec<(String, String)>,
    /// The early end of the scan, if there was one.
    pub(crate) ending: Option<ShortcircuitEnding>,
}

impl Report {
    /// Whether the sum reaches the threshold.
    pub fn is_spam(&self) -> bool {
        self.score >= self.required
    }

    /// The names of the rules hit, sorted and joined by commas, as spamd's SYMBOLS prints them.
    pub fn symbols(&self) -> String {
        self.sorted_names().join(",")
    }

    /// The report as text, as spamd's REPORT prints it. Lines end in LF.
    pub fn text(&self) -> String {
        let template = match self.options.report.as_str() {
            "" => REPORT_DEFAULT,
            template => template,
        };
        let text = template::fill(template, self);
        format!("{}\n\n", text.trim_end_matches('\n'))
    }

    /// The fields to add to the head of the message, as name and (folded) value, in order.
    pub fn header_fields(&self) -> Vec<(String, String)> {
        rewrite::header_fields(self)
    }

    /// The message as spamd's PROCESS returns it: with the report's fields, and wrapped into a
    /// message with the report if it is spam and the rules' `report_safe` demands it.
    pub fn rewrite(&self, message: &[u8]) -> Vec<u8> {
        rewrite::message(self, message)
    }

    fn sorted_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.hits.iter().map(|hit| &*hit.name).collect();
        names.sort_unstable();
        names
    }
}

/// Options that all reports share, with the requirements of their templates.
pub(crate) fn shared(options: &ReportOptions) -> Arc<ReportOptions> {
    Arc::new(ReportOptions {
        wanted_tags: message_tags::needed_tags(options),
        wants_sub_rules: message_tags::wants_sub_rules(options),
        ..options.clone()
    })
}

/// Rounds to a thousandth, so that sums of tenths compare as people expect.
pub(crate) fn round(score: f64) -> f64 {
    format!("{score:.3}").parse().unwrap_or(score)
}

/// The beginning of the text, in one line.
pub(crate) fn preview(body: &Lines) -> String {
    let mut text = Vec::new();
    // The first line is the subject.
    for line in body.iter().skip(1).take(PREVIEW_LINES_MAX) {
        if text.len() >= PREVIEW_BYTES_MAX {
            break;
        }
        let length = line.len().min(PREVIEW_BYTES_MAX);
        text.extend_from_slice(line.get(..length).unwrap_or_default());
        if length < line.len() {
            text.extend_from_slice(b" [...]");
        }
        text.push(b' ');
    }
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::Report;

    /// A report of this score, of 5 required.
    pub(super) fn report(score: f64) -> Report {
        Report {
            score,
            required: 5.0,
            ..Report::default()
        }
    }
}
