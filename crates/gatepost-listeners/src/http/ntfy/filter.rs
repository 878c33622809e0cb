//! Readers that want some messages only: `?priority=high,urgent&tags=fire&title=…&message=…&id=…`.

use gatepost_message::Publication;

use super::super::error::HttpError;
use super::super::request::Request;
use super::super::topics;

/// What a reader wants; what is empty asks for nothing.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct Filter {
    id: Option<String>,
    message: Option<String>,
    title: Option<String>,
    /// Any of these.
    priorities: Vec<String>,
    /// All of these.
    tags: Vec<String>,
}

impl Filter {
    /// The filter of a request, if it has one.
    pub(super) fn of_request(request: &Request) -> Result<Option<Self>, HttpError> {
        let said = |aliases: &[&str]| {
            let mut settings = aliases
                .iter()
                .filter_map(|alias| topics::setting(request, alias));
            settings.find(|value| !value.is_empty())
        };
        let listed = |text: Option<String>| -> Vec<String> {
            let text = text.unwrap_or_default();
            let parts = text
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let mut filter = Self {
            id: said(&["x-id", "id"]),
            message: said(&["x-message", "message", "m"]),
            title: said(&["x-title", "title", "t"]),
            priorities: listed(said(&["x-priority", "priority", "prio", "p"])),
            tags: listed(said(&["x-tags", "tags", "tag", "ta"])),
        };
        for priority in &mut filter.priorities {
            *priority = super::message::priority(priority)?.to_owned();
        }
        Ok((filter != Self::default()).then_some(filter))
    }

    /// Whether the reader wants it.
    pub(in super::super) fn wants(&self, publication: &Publication) -> bool {
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
