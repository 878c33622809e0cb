//! The buttons of a notification, as ntfy defines them: the user property `actions`, a JSON array
//! or the short format of `short.rs`.
//!
//! A listener checks the text of a publisher with [`NotificationAction::parse`] and keeps the JSON.
//! Publications by MQTT are not checked: if their text cannot be parsed, readers get no buttons.

mod short;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The user property.
pub const ACTIONS: &str = "actions";
/// ntfy's bound on the buttons of a notification.
const ACTIONS_MAX: usize = 3;
/// The longest text of all buttons.
const ACTIONS_BYTES_MAX: usize = 8 * 1024;

/// The reason why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // their texts say enough
pub enum ActionMistake {
    #[error("a notification has at most {ACTIONS_MAX} actions")]
    TooMany,
    #[error("at most {ACTIONS_BYTES_MAX} bytes are possible")]
    TooLong,
    #[error("not a JSON array of actions: {0}")]
    Json(String),
    #[error("an action is view, broadcast, http or copy")]
    Kind,
    #[error("{kind}: {name} is missing")]
    Missing {
        kind: &'static str,
        name: &'static str,
    },
    #[error("http: url must begin with http:// or https://")]
    Url,
    #[error("http: method must be a word")]
    Method,
    #[error("http: {0} has no body")]
    Body(String),
    #[error("'{0}' is not known; write action, label, url (copy: value) and then name=value")]
    Term(String),
    #[error("clear is true or false")]
    Clear,
    #[error("a quoted value does not end before the next comma or semicolon")]
    Quote,
}

/// The effect of a button.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ActionKind {
    /// Opens an address.
    #[default]
    View,
    /// Sends an intent of Android.
    Broadcast,
    /// Sends a request.
    Http,
    /// Copies a text to the clipboard.
    Copy,
}

impl ActionKind {
    fn of(name: &str) -> Result<Self, ActionMistake> {
        let kinds = [Self::View, Self::Broadcast, Self::Http, Self::Copy];
        let mut kinds = kinds.into_iter();
        let found = kinds.find(|kind| name.eq_ignore_ascii_case(kind.name()));
        found.ok_or(ActionMistake::Kind)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Broadcast => "broadcast",
            Self::Http => "http",
            Self::Copy => "copy",
        }
    }
}

/// The fields of a button as they are written; all may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ActionFields {
    action: String,
    label: String,
    clear: bool,
    url: String,
    method: String,
    headers: BTreeMap<String, String>,
    body: String,
    intent: String,
    extras: BTreeMap<String, String>,
    value: String,
}

/// A button of a notification; serialized as in ntfy's messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NotificationAction {
    /// Distinguishes the buttons of one message.
    id: String,
    action: ActionKind,
    label: String,
    /// Whether the notification is dismissed after the action.
    clear: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    method: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    body: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    intent: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extras: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    value: String,
}

impl NotificationAction {
    /// The buttons that a text describes.
    pub fn parse(text: &str) -> Result<Vec<Self>, ActionMistake> {
        if text.len() > ACTIONS_BYTES_MAX {
            return Err(ActionMistake::TooLong);
        }
        let text = text.trim();
        let given: Vec<ActionFields> = if text.starts_with('[') {
            let parsed = serde_json::from_str(text);
            parsed.map_err(|error| ActionMistake::Json(error.to_string()))?
        } else {
            short::parse(text)?
        };
        if given.len() > ACTIONS_MAX {
            return Err(ActionMistake::TooMany);
        }
        let numbered = (1..).zip(given);
        numbered
            .map(|(number, given): (usize, _)| Self::checked(number, given))
            .collect()
    }

    fn checked(number: usize, given: ActionFields) -> Result<Self, ActionMistake> {
        let action = ActionKind::of(&given.action)?;
        let kind = action.name();
        let expect = |name, value: &str| {
            let is_there = !value.is_empty();
            is_there
                .then_some(())
                .ok_or(ActionMistake::Missing { kind, name })
        };
        expect("label", &given.label)?;
        match action {
            ActionKind::View => expect("url", &given.url)?,
            ActionKind::Copy => expect("value", &given.value)?,
            ActionKind::Broadcast => {}
            ActionKind::Http => {
                expect("url", &given.url)?;
                expect_request(&given)?;
            }
        }
        Ok(Self {
            id: number.to_string(),
            action,
            label: given.label,
            clear: given.clear,
            url: given.url,
            method: given.method.to_ascii_uppercase(),
            headers: given.headers,
            body: given.body,
            intent: given.intent,
            extras: given.extras,
            value: given.value,
        })
    }
}

/// Checks the fields that an HTTP request needs.
fn expect_request(given: &ActionFields) -> Result<(), ActionMistake> {
    let has_scheme = |scheme: &str| {
        let start = given.url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if !has_scheme("http://") && !has_scheme("https://") {
        return Err(ActionMistake::Url);
    }
    let method = given.method.to_ascii_uppercase();
    if !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(ActionMistake::Method);
    }
    if matches!(method.as_str(), "GET" | "HEAD") && !given.body.is_empty() {
        return Err(ActionMistake::Body(method));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parsed(text: &str) -> Value {
        let actions = NotificationAction::parse(text).unwrap_or_else(|error| panic!("{error}"));
        serde_json::to_value(actions).expect("JSON")
    }

    #[test]
    fn both_formats_mean_the_same() {
        let short = "view, Open door, https://door.example, clear=yes; \
            action=http, label='Close; now, \\'quickly\\'', url=https://x, method=put, \
            headers.Authorization=\"Bearer a,b\", body={\"a\": 65}; copy, Copy code, 123456";
        let long = r#"[{"action":"view","label":"Open door","clear":true,
             "url":"https://door.example"},
            {"action":"HTTP","label":"Close; now, 'quickly'","url":"https://x","method":"PUT",
             "headers":{"Authorization":"Bearer a,b"},"body":"{\"a\": 65}"},
            {"action":"copy","label":"Copy code","value":"123456"}]"#;
        assert_eq!(parsed(short), parsed(long));
        let all = parsed(short);
        assert_eq!(
            all[0],
            json!({"id": "1", "action": "view", "label": "Open door", "clear": true,
                   "url": "https://door.example"})
        );
        assert_eq!(all[1]["method"], "PUT");
        // The stored text is parsed again by the readers.
        assert_eq!(parsed(&all.to_string()), all);
        let intent = parsed("broadcast, Picture, extras.cmd=pic, extras.camera=front, intent=a.b");
        assert_eq!(intent[0]["extras"]["camera"], "front");
        assert_eq!(parsed(""), json!([]));
        assert_eq!(
            parsed("view, Ünïcode, https://☂.example;")[0]["label"],
            "Ünïcode"
        );
    }

    #[test]
    fn mistakes_are_explained() {
        use ActionMistake as Mistake;
        let missing = |kind, name| Mistake::Missing { kind, name };
        for (text, mistake) in [
            ("open, x, y", Mistake::Kind),
            ("[{\"label\":\"x\"}]", Mistake::Kind),
            ("view", missing("view", "label")),
            ("view, a", missing("view", "url")),
            ("http, a", missing("http", "url")),
            ("copy, a", missing("copy", "value")),
            ("http, a, ftp://x", Mistake::Url),
            ("http, a, http://x, method=P T", Mistake::Method),
            (
                "http, a, http://x, method=get, body=x",
                Mistake::Body("GET".to_owned()),
            ),
            ("broadcast, a, b", Mistake::Term("b".to_owned())),
            ("view, a, b, colour=red", Mistake::Term("colour".to_owned())),
            ("view, a, b, clear=perhaps", Mistake::Clear),
            ("view, 'a, b", Mistake::Quote),
            ("view, 'a' b, c", Mistake::Quote),
            ("view,a,b;view,a,b;view,a,b;view,a,b", Mistake::TooMany),
            (&"x".repeat(ACTIONS_BYTES_MAX + 1), Mistake::TooLong),
        ] {
            assert_eq!(NotificationAction::parse(text), Err(mistake), "{text:.60}");
        }
        for text in ["[", "[1]", r#"[{"action":"view","label":1}]"#] {
            let refused = NotificationAction::parse(text);
            assert!(matches!(refused, Err(Mistake::Json(_))), "{text}");
        }
    }
}
