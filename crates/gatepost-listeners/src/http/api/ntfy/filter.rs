//! Filters for readers that want only some messages:
//! `?priority=high,urgent&tags=fire&title=…&message=…&id=…`.

use super::fields::{is_http_priority, priority};
use crate::http::error::HttpError;
use crate::http::event_stream::EventFilter;
use crate::http::parameters::first_parameter;
use crate::http::request::HttpRequest;

/// The filter of a request, if it has one.
pub(super) fn filter_of(request: &HttpRequest) -> Result<Option<EventFilter>, HttpError> {
    let value = |names: &[&str]| first_parameter(request, names);
    let list = |text: Option<String>| -> Vec<String> {
        let text = text.unwrap_or_default();
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let mut filter = EventFilter {
        id: value(&["x-id", "id"]),
        message: value(&["x-message", "message", "m"]),
        title: value(&["x-title", "title", "t"]),
        priorities: list(
            value(&["x-priority", "priority", "prio", "p"])
                .filter(|priorities| !is_http_priority(priorities)),
        ),
        tags: list(value(&["x-tags", "tags", "tag", "ta"])),
    };
    for text in &mut filter.priorities {
        *text = priority(text)?.to_owned();
    }
    Ok((filter != EventFilter::default()).then_some(filter))
}
