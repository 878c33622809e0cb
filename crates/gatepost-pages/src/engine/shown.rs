//! Publications as values of templates.

use std::fmt;
use std::sync::Arc;

use gatepost_message::Publication;
use minijinja::value::{Enumerator, Object, Value};

use crate::clock;
use crate::memory_limit::{self, unwatched};
use crate::values::text_of;

/// A publication in a template: prints as its payload; has `payload`, `topic`, `id`, `time`,
/// `json` and `properties`.
///
/// It counts with the size of its content, which others may share.
#[derive(Debug)]
pub(super) struct ShownPublication(Option<Arc<Publication>>);

impl ShownPublication {
    pub(super) fn value(publication: Arc<Publication>) -> Value {
        memory_limit::charge(publication.payload.len());
        Value::from_object(Self(Some(publication)))
    }
}

impl Drop for ShownPublication {
    fn drop(&mut self) {
        let publication = self.0.take();
        memory_limit::refund(publication.as_ref().map_or(0, |held| held.payload.len()));
        // It was not allocated here, and may be dropped now.
        unwatched(|| drop(publication));
    }
}

const SHOWN: [&str; 6] = ["payload", "topic", "id", "time", "json", "properties"];

impl Object for ShownPublication {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let publication = self.0.as_ref()?;
        Some(match key.as_str()? {
            "payload" => Value::from(text_of(publication)),
            "topic" => Value::from(publication.topic.as_str()),
            "id" => Value::from(publication.id.to_string()),
            "time" => Value::from(clock::page_date(publication.id.time())),
            "json" => serde_json::from_slice::<serde_json::Value>(&publication.payload)
                .map_or(Value::UNDEFINED, Value::from_serialize),
            "properties" => publication
                .properties
                .as_ref()
                .map(|properties| properties.user.iter().cloned())
                .into_iter()
                .flatten()
                .collect::<Value>(),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&SHOWN)
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(publication) => formatter.write_str(&text_of(publication)),
            None => Ok(()),
        }
    }
}
