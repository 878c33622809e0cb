//! Insertion points: what they are, and the text that each leaves in a page.

use std::sync::Arc;

use gatepost_message::{MessageId, Publication};

use crate::clock;
use crate::escape::push_escaped;
use crate::values::{CallError, Values};

/// One insertion point whose arguments are constants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Insertion {
    /// `now()`: date and time in UTC, to the second.
    Now,
    /// `now("%H:%M")`
    NowAs(String),
    /// `latest("topic")`: the payload of the topic's last publication.
    Latest(String),
    /// `live("topic")`: the same, kept up to date by the browser.
    Live(String),
    /// `call("/procedure", name="value")`
    Call {
        /// The procedure.
        path: String,
        /// Name and value.
        arguments: Vec<(String, String)>,
    },
}

impl Insertion {
    /// Whether its value must be waited for.
    pub const fn waits(&self) -> bool {
        matches!(self, Self::Call { .. })
    }

    /// Appends the text of an insertion point that need not wait.
    pub fn push(&self, output: &mut Vec<u8>, values: &dyn Values) {
        match self {
            Self::Now => clock::push_page_date(output),
            Self::NowAs(format) => match clock::format_now(format) {
                Ok(text) => push_escaped(output, &text),
                Err(detail) => push_failure(output, &detail),
            },
            Self::Latest(topic) => {
                if let Some(publication) = values.latest(topic) {
                    push_escaped(output, &text_of(&publication));
                }
            }
            Self::Live(topic) => push_live(output, topic, values.latest(topic)),
            Self::Call { path, .. } => push_failure(output, &format!("{path} was not waited for")),
        }
    }

    /// Appends the answer of a procedure.
    pub fn push_answer(output: &mut Vec<u8>, answer: Result<String, CallError>) {
        match answer {
            Ok(text) => push_escaped(output, &text),
            Err(error) => push_failure(output, &error.to_string()),
        }
    }
}

/// A payload as text; what is not UTF-8 becomes U+FFFD.
pub(crate) fn text_of(publication: &Publication) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&publication.payload)
}

/// The value in an element that the live script finds by its attribute. The script resumes
/// after `data-gatepost-id`, so nothing published between rendering and connecting is missed.
pub(crate) fn push_live(output: &mut Vec<u8>, topic: &str, latest: Option<Arc<Publication>>) {
    output.extend_from_slice(b"<span data-gatepost-live=\"");
    push_escaped(output, topic);
    let id = latest.as_ref().map_or_else(
        || MessageId::floor_at(std::time::SystemTime::now()),
        |latest| latest.id,
    );
    output.extend_from_slice(format!("\" data-gatepost-id=\"{id}\">").as_bytes());
    if let Some(publication) = latest {
        push_escaped(output, &text_of(&publication));
    }
    output.extend_from_slice(b"</span>");
}

/// A comment in the place of a value that could not be had; its id is the log line's.
pub(crate) fn push_failure(output: &mut Vec<u8>, detail: &str) {
    output.extend_from_slice(failure_comment(detail).as_bytes());
}

/// Logs the failure and returns the comment that stands for it.
pub(crate) fn failure_comment(detail: &str) -> String {
    let id = MessageId::next();
    tracing::warn!(target: "pages", error = %id, "insertion point failed: {detail}");
    format!("<!-- gatepost error {id} -->")
}
