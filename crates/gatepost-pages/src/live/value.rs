//! The value of a payload that a live element shows.

use std::borrow::Cow;

use gatepost_message::Publication;
use serde_json::Value;

use crate::values::text_of;

/// Refuses a path that leads nowhere.
pub(super) fn check_path(path: Option<&str>) -> Result<(), &'static str> {
    if path.is_some_and(|path| path.split('.').any(str::is_empty)) {
        return Err("a path is written as \"name\" or \"name.0.other\"");
    }
    Ok(())
}

/// The payload, or the value at a path of it.
pub(super) fn value_of<'a>(publication: &'a Publication, path: Option<&str>) -> Cow<'a, str> {
    match path {
        None => text_of(publication),
        Some(path) => Cow::Owned(value_at(&publication.payload, path)),
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

/// A number written in decimal digits; the script knows the same ones.
pub(super) fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    // Not "inf", "NaN" or "infinity".
    let is_number = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse::<f64>()
        .ok()
        .filter(|number| is_number && number.is_finite())
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
    fn numbers_are_decimal() {
        for (text, number) in [
            ("21.5", Some(21.5)),
            (" -3 ", Some(-3.0)),
            ("1e3", Some(1000.0)),
            ("", None),
            ("NaN", None),
            ("inf", None),
            ("0x10", None),
            ("1e999", None),
            ("12 °C", None),
        ] {
            assert_eq!(number_of(text), number, "{text:?}");
        }
    }
}
