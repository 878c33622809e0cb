//! `live_list()`: the latest publications under a filter, newest first. The browser adds those
//! that follow.

use std::borrow::Cow;
use std::sync::Arc;

use gatepost_message::{Publication, TopicFilter};

use super::value::{check_path, value_of};
use super::{LiveFilter, apply, filters_as_json, push_filtered, push_id, push_path};
use crate::clock;
use crate::escape::push_escaped;
use crate::values::ValueSource;

/// The longest list: a browser redraws it with each publication.
const ENTRIES_MAX: usize = 1_000;

/// A list that grows at its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveList {
    filter: TopicFilter,
    count: usize,
    path: Option<String>,
    filters: Vec<LiveFilter>,
}

impl LiveList {
    /// A list; the error explains why it would stay empty.
    pub(crate) fn new(filter: &str, count: usize, path: Option<&str>) -> Result<Self, String> {
        let described = |detail: &str| format!("live_list(\"{filter}\", …): {detail}");
        if !(1..=ENTRIES_MAX).contains(&count) {
            return Err(described(&format!(
                "{count} entries: 1 to {ENTRIES_MAX} are possible"
            )));
        }
        check_path(path).map_err(described)?;
        Ok(Self {
            filter: TopicFilter::new(filter).map_err(|error| described(&error.to_string()))?,
            count,
            path: path.map(str::to_owned),
            filters: Vec::new(),
        })
    }

    pub(crate) fn filter(&self) -> &str {
        self.filter.as_str()
    }

    pub(crate) fn add_filter(&mut self, filter: LiveFilter) {
        self.filters.push(filter);
    }

    /// Appends the list with its present entries.
    pub(crate) fn push(&self, output: &mut Vec<u8>, values: &dyn ValueSource) {
        let publications = values.history(&self.filter, self.count);
        output.extend_from_slice(b"<ul class=\"gatepost-list\" data-gatepost-list=\"");
        push_escaped(output, self.filter.as_str());
        push_path(output, self.path.as_deref());
        output.extend_from_slice(format!("\" data-gatepost-count=\"{}", self.count).as_bytes());
        if !self.filters.is_empty() {
            output.extend_from_slice(b"\" data-gatepost-filters=\"");
            push_escaped(output, &filters_as_json(&self.filters));
        }
        output.extend_from_slice(b"\" data-gatepost-id=\"");
        push_id(output, publications.last().map(Arc::as_ref));
        output.extend_from_slice(b"\">");
        for publication in publications.iter().rev() {
            self.push_entry(output, publication);
        }
        output.extend_from_slice(b"</ul>");
    }

    fn push_entry(&self, output: &mut Vec<u8>, publication: &Publication) {
        let time = clock::page_date(publication.id.time());
        let entry = format!(
            "<li data-gatepost-id=\"{}\"><time datetime=\"{}\">{time}</time> <span \
             class=\"topic\">",
            publication.id,
            clock::rfc3339(publication.id.time()),
        );
        output.extend_from_slice(entry.as_bytes());
        push_escaped(output, publication.topic.as_str());
        output.extend_from_slice(b"</span> <span class=\"value");
        let text: Cow<'_, str> = value_of(publication, self.path.as_deref());
        // The list has the filters; an entry only if the script rewrites it.
        if self.filters.iter().any(LiveFilter::is_local) {
            push_filtered(output, text, &self.filters);
        } else {
            push_filtered(output, apply(&self.filters, text), &[]);
        }
        output.extend_from_slice(b"</span></li>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_cannot_work_is_refused() {
        for (filter, count, path) in [
            ("a/#/b", 20, None),
            ("a/#", 0, None),
            ("a/#", ENTRIES_MAX + 1, None),
            ("a/#", 20, Some(".")),
        ] {
            let error = LiveList::new(filter, count, path).expect_err(filter);
            assert!(error.starts_with("live_list("), "{error}");
        }
        assert!(LiveList::new("a", 1, Some("b")).is_ok());
    }
}
