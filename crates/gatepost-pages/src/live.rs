//! Live values: what `live()` puts into a page, and the browser's script keeps up to date.
//!
//! The element names its topic, the path of the value within a JSON payload, and the id of the
//! publication that it shows. The script resumes after that id, so nothing published between
//! rendering and connecting is missed; it reads the path as [`value_at`] does.

use std::borrow::Cow;
use std::time::SystemTime;

use gatepost_message::{MessageId, Topic};
use serde_json::Value;

use crate::escape::push_escaped;
use crate::values::{ValueSource, text_of};

/// A topic's latest publication, or one value within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveValue {
    topic: String,
    /// Names and positions, separated by dots; `None` for the whole payload.
    path: Option<String>,
}

impl LiveValue {
    /// A live value; the error explains why it would stay empty.
    pub(crate) fn new(topic: &str, path: Option<&str>) -> Result<Self, String> {
        if let Err(error) = Topic::check(topic) {
            return Err(format!(
                "live(\"{topic}\"): {error}; it shows one topic, history() shows those of a filter"
            ));
        }
        if path.is_some_and(|path| path.split('.').any(str::is_empty)) {
            return Err(format!(
                "live(\"{topic}\", …): a path is written as \"name\" or \"name.0.other\""
            ));
        }
        Ok(Self {
            topic: topic.to_owned(),
            path: path.map(str::to_owned),
        })
    }

    /// Appends the element with the present value.
    pub(crate) fn push(&self, output: &mut Vec<u8>, values: &dyn ValueSource) {
        let latest = values.latest(&self.topic);
        output.extend_from_slice(b"<span data-gatepost-live=\"");
        push_escaped(output, &self.topic);
        if let Some(path) = &self.path {
            output.extend_from_slice(b"\" data-gatepost-path=\"");
            push_escaped(output, path);
        }
        let id = latest.as_ref().map_or_else(
            || MessageId::floor_at(SystemTime::now()),
            |latest| latest.id,
        );
        output.extend_from_slice(format!("\" data-gatepost-id=\"{id}\">").as_bytes());
        if let Some(publication) = latest {
            let text = match &self.path {
                None => text_of(&publication),
                Some(path) => Cow::Owned(value_at(&publication.payload, path)),
            };
            push_escaped(output, &text);
        }
        output.extend_from_slice(b"</span>");
    }
}

/// The value at a path of a JSON payload, as JavaScript would print it; empty where there is none.
fn value_at(payload: &[u8], path: &str) -> String {
    let Ok(document) = serde_json::from_slice::<Value>(payload) else {
        return String::new();
    };
    let mut value = Some(&document);
    for name in path.split('.') {
        value = value.and_then(|value| match value {
            Value::Object(members) => members.get(name),
            Value::Array(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        });
    }
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // 20.0 is 20 there.
        Some(Value::Number(number)) if number.is_f64() => number
            .as_f64()
            .map_or_else(String::new, |number| number.to_string()),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_a_value_of_any_kind() {
        let payload =
            br#"{"t": 20.0, "n": 7, "on": true, "room": {"name": "<hall>", "lamps": [1.5, null]}}"#;
        for (path, text) in [
            ("t", "20"),
            ("n", "7"),
            ("on", "true"),
            ("room.name", "<hall>"),
            ("room.lamps.0", "1.5"),
            ("room.lamps.1", ""),
            ("room.lamps.2", ""),
            ("room.lamps", "[1.5,null]"),
            ("room.none.more", ""),
            ("n.more", ""),
        ] {
            assert_eq!(value_at(payload, path), text, "{path}");
        }
        assert_eq!(value_at(b"no JSON", "t"), "");
        assert_eq!(value_at(b"[[3]]", "0.0"), "3");
    }

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
}
