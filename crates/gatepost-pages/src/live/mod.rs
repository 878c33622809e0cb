//! Live values, lists and charts: what they put into a page, and what the browser's script then
//! keeps up to date.
//!
//! Each element names its topic or filter, the path of the value within a JSON payload, its
//! filters, and the id of the newest publication that it shows. The script resumes after that id,
//! so nothing published between rendering and connecting is missed; it reads a path as
//! [`value_of`] does and applies filters as [`LiveFilter`] does.
//!
//! Invariant: whatever comes from a payload or a topic is escaped, here and in the script.

mod chart;
mod filter;
mod list;
mod value;

use std::borrow::Cow;
use std::time::SystemTime;

use gatepost_message::{MessageId, Publication, Topic};

use crate::escape::push_escaped;
use crate::values::ValueSource;
pub(crate) use chart::LiveChart;
pub(crate) use filter::{LiveFilter, TimePart};
use filter::{apply, filters_as_json};
pub(crate) use list::LiveList;
use value::{check_path, value_of};

/// A topic's latest publication, or one value within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveValue {
    topic: String,
    /// Names and positions, separated by dots; `None` for the whole payload.
    path: Option<String>,
    filters: Vec<LiveFilter>,
}

impl LiveValue {
    /// A live value; the error explains why it would stay empty.
    pub(crate) fn new(topic: &str, path: Option<&str>) -> Result<Self, String> {
        if let Err(error) = Topic::check(topic) {
            return Err(format!(
                "live(\"{topic}\"): {error}; live() shows one topic, live_list() those of a filter"
            ));
        }
        check_path(path).map_err(|detail| format!("live(\"{topic}\", …): {detail}"))?;
        Ok(Self {
            topic: topic.to_owned(),
            path: path.map(str::to_owned),
            filters: Vec::new(),
        })
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    pub(crate) fn add_filter(&mut self, filter: LiveFilter) {
        self.filters.push(filter);
    }

    /// Appends the element with the present value.
    pub(crate) fn push(&self, output: &mut Vec<u8>, values: &dyn ValueSource) {
        let latest = values.latest(&self.topic);
        output.extend_from_slice(b"<span data-gatepost-live=\"");
        push_escaped(output, &self.topic);
        push_path(output, self.path.as_deref());
        output.extend_from_slice(b"\" data-gatepost-id=\"");
        push_id(output, latest.as_deref());
        let text = latest.as_ref().map_or(Cow::Borrowed(""), |latest| {
            value_of(latest, self.path.as_deref())
        });
        push_filtered(output, text, &self.filters);
        output.extend_from_slice(b"</span>");
    }
}

/// A value that is in the page from the start, written by the browser in the visitor's language and
/// time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalValue {
    text: String,
    filters: Vec<LiveFilter>,
}

impl LocalValue {
    pub(crate) fn new(text: String, filter: LiveFilter) -> Self {
        Self {
            text,
            filters: vec![filter],
        }
    }

    pub(crate) fn add_filter(&mut self, filter: LiveFilter) {
        self.filters.push(filter);
    }

    pub(crate) fn push(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(b"<span data-gatepost-local=\"");
        push_filtered(output, Cow::Borrowed(&self.text), &self.filters);
        output.extend_from_slice(b"</span>");
    }
}

/// The end of an element's attributes, and its text. If the browser rewrites the value, an
/// attribute contains it as it is in the payload.
fn push_filtered(output: &mut Vec<u8>, text: Cow<'_, str>, filters: &[LiveFilter]) {
    if !filters.is_empty() {
        output.extend_from_slice(b"\" data-gatepost-filters=\"");
        push_escaped(output, &filters_as_json(filters));
        if filters.iter().any(LiveFilter::is_local) {
            output.extend_from_slice(b"\" data-gatepost-value=\"");
            push_escaped(output, &text);
        }
    }
    output.extend_from_slice(b"\">");
    push_escaped(output, &apply(filters, text));
}

fn push_path(output: &mut Vec<u8>, path: Option<&str>) {
    if let Some(path) = path {
        output.extend_from_slice(b"\" data-gatepost-path=\"");
        push_escaped(output, path);
    }
}

/// The id after which the browser continues.
fn push_id(output: &mut Vec<u8>, newest: Option<&Publication>) {
    let id = newest.map_or_else(
        || MessageId::floor_at(SystemTime::now()),
        |newest| newest.id,
    );
    output.extend_from_slice(id.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_and_a_path_with_gaps_are_refused() {
        for (topic, path) in [
            ("a/#", None),
            ("+", None),
            ("a", Some("b..c")),
            ("a", Some("")),
        ] {
            assert!(LiveValue::new(topic, path).is_err(), "{topic} {path:?}");
        }
        assert!(LiveValue::new("a/b", Some("c.0")).is_ok());
    }

    #[test]
    fn local_values_keep_the_original_and_show_it_escaped() {
        let mut value = LocalValue::new("\"><b>".to_owned(), LiveFilter::Number(Some(1)));
        value.add_filter(LiveFilter::Default("<i>".to_owned()));
        let mut html = Vec::new();
        value.push(&mut html);
        assert_eq!(
            String::from_utf8(html).expect("UTF-8"),
            "<span data-gatepost-local=\"\" \
             data-gatepost-filters=\"[[&quot;number&quot;,1],[&quot;default&quot;,&quot;&lt;i&gt;\
             &quot;]]\" data-gatepost-value=\"&quot;&gt;&lt;b&gt;\">&quot;&gt;&lt;b&gt;</span>"
        );
    }
}
