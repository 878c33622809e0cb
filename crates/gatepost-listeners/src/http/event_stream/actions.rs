//! Buttons of a notification, as ntfy writes them: a JSON array, or in short
//! `view, Open door, https://door.example, clear=true; http, Close, https://…`.

use serde_json::{Map, Value, json};

/// ntfy's bound.
const ACTIONS_MAX: usize = 3;

/// Checks that the text can be parsed; the error describes the mistake.
pub(in crate::http) fn check_actions(text: &str) -> Result<(), &'static str> {
    parse(text).map(drop)
}

/// The actions as readers receive them; `None` if they cannot be parsed.
pub(super) fn to_json(text: &str) -> Option<Value> {
    parse(text).ok().map(Value::from)
}

fn parse(text: &str) -> Result<Vec<Value>, &'static str> {
    let actions = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|_| "not a JSON array of actions")?
    } else {
        text.split(';')
            .filter(|action| !action.trim().is_empty())
            .map(one)
            .collect::<Result<Vec<_>, _>>()?
    };
    if actions.len() > ACTIONS_MAX {
        return Err("a notification has at most three actions");
    }
    Ok(actions)
}

fn one(text: &str) -> Result<Value, &'static str> {
    let mut action = Map::new();
    let mut bare = 0;
    for part in text.split(',').map(str::trim) {
        let unquoted = |value: &str| value.trim_matches(['\'', '"']).to_owned();
        let pair = part.split_once('=').filter(|(key, _)| {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
            !key.is_empty() && key.bytes().all(is_name)
        });
        match pair {
            Some(("clear", value)) => {
                action.insert("clear".to_owned(), json!(value == "true"));
            }
            Some((key, value)) => match key.split_once('.') {
                Some((group @ ("headers" | "extras"), name)) => {
                    let group = action.entry(group).or_insert_with(|| json!({}));
                    let pairs = group
                        .as_object_mut()
                        .ok_or("headers and extras have names of their own")?;
                    pairs.insert(name.to_owned(), Value::from(unquoted(value)));
                }
                _ => {
                    action.insert(key.to_owned(), Value::from(unquoted(value)));
                }
            },
            None => {
                let key = *["action", "label", "url"]
                    .get(bare)
                    .ok_or("write action, label, url and then name=value")?;
                bare += 1;
                action.insert(key.to_owned(), Value::from(unquoted(part)));
            }
        }
    }
    let kind = action.get("action").and_then(Value::as_str);
    if !matches!(kind, Some("view" | "http" | "broadcast" | "copy")) {
        return Err("an action is view, http, broadcast or copy");
    }
    if action.get("label").is_none() {
        return Err("an action needs a label");
    }
    Ok(Value::from(action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_in_both_forms() {
        let short = "view, Open door, https://door.example, clear=true; http, 'Close', https://x, \
            method=PUT, headers.a=1";
        let actions = parse(short).expect("actions");
        assert_eq!(actions[0]["url"], "https://door.example");
        assert_eq!(actions[0]["clear"], true);
        assert_eq!(actions[1]["label"], "Close");
        assert_eq!(actions[1]["headers"]["a"], "1");
        assert_eq!(parse(r#"[{"action":"view"}]"#).map(|all| all.len()), Ok(1));
        for text in [
            "open, x, y",
            "view",
            "[",
            "view,a,b,c",
            "view,a,b,headers=x,headers.a=1",
            "view,a,b;view,a,b;view,a,b;view,a,b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
