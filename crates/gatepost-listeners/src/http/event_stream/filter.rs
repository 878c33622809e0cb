//! The filter of publications that a reader of ntfy's shapes may request.

use gatepost_message::{Publication, SequenceEvent};

/// Conditions on publications; an empty field excludes nothing.
#[derive(Debug, Default, PartialEq)]
pub(in crate::http) struct EventFilter {
    pub id: Option<String>,
    pub message: Option<String>,
    pub title: Option<String>,
    /// Any of these.
    pub priorities: Vec<String>,
    /// All of these.
    pub tags: Vec<String>,
}

impl EventFilter {
    /// Whether the publication passes the filter. Events of sequences pass: they have no
    /// attributes, and concern messages that may have passed.
    pub(in crate::http) fn wants(&self, publication: &Publication) -> bool {
        let properties = publication.properties.as_deref();
        if properties.and_then(SequenceEvent::of).is_some() {
            return true;
        }
        let property = |name: &str| {
            let properties = publication.properties.as_ref()?;
            properties.user_property(name)
        };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == found
        };
        let tags = property("tags").unwrap_or_default();
        let has_tag = |wanted: &String| tags.split(',').any(|tag| tag.trim() == wanted);
        let priority = property("priority").unwrap_or("3");
        is(&self.id, Some(&publication.id.to_string()))
            && is(
                &self.message,
                std::str::from_utf8(&publication.payload).ok(),
            )
            && is(&self.title, property("title"))
            && (self.priorities.is_empty() || self.priorities.iter().any(|one| one == priority))
            && self.tags.iter().all(has_tag)
    }
}
