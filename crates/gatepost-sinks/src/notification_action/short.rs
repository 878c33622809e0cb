//! The short format of buttons: `view, Open door, https://door.example, clear=true; http, …`.
//!
//! Semicolons separate buttons, commas their parts. A part is `name=value` or, for the first ones,
//! a bare value. A value in single or double quotes may contain both, and its quote after a
//! backslash.

use super::{ActionFields, ActionKind, ActionMistake};

/// Reads all buttons.
pub(super) fn parse(text: &str) -> Result<Vec<ActionFields>, ActionMistake> {
    let mut rest = text;
    let mut actions = Vec::new();
    while !rest.trim_start().is_empty() {
        let mut action = ActionFields::default();
        let mut place = 0;
        loop {
            let part = ActionPart::read(rest)?;
            rest = part.rest;
            set(&mut action, part.name, part.value, place)?;
            place += 1;
            if part.is_last {
                break;
            }
        }
        actions.push(action);
    }
    Ok(actions)
}

/// A part of a button.
struct ActionPart<'a> {
    name: Option<&'a str>,
    value: String,
    /// Whether the button ends here.
    is_last: bool,
    rest: &'a str,
}

impl<'a> ActionPart<'a> {
    fn read(text: &'a str) -> Result<Self, ActionMistake> {
        let text = text.trim_start();
        let (name, text) = match name_of(text) {
            Some((name, rest)) => (Some(name), rest),
            None => (None, text),
        };
        let quote = text
            .chars()
            .next()
            .filter(|first| matches!(first, '\'' | '"'));
        let (value, rest) = if let Some(quote) = quote {
            quoted(&text[1..], quote)?
        } else {
            let end = text.find([',', ';']).unwrap_or(text.len());
            (text[..end].trim().to_owned(), &text[end..])
        };
        let separator = rest.chars().next();
        Ok(Self {
            name,
            value,
            is_last: separator != Some(','),
            rest: rest.get(1..).unwrap_or_default(),
        })
    }
}

/// The name of a `name=value`, and the text after the equals sign.
fn name_of(text: &str) -> Option<(&str, &str)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let (name, rest) = text.split_at(text.find(|c| !is_of_name(c))?);
    let value = rest.trim_start().strip_prefix('=')?;
    (!name.is_empty()).then_some((name, value.trim_start()))
}

/// A value until its closing quote, and the text from the separator after it on.
fn quoted(text: &str, quote: char) -> Result<(String, &str), ActionMistake> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            let rest = text[at + 1..].trim_start();
            let is_end = rest.is_empty() || rest.starts_with([',', ';']);
            return is_end.then_some((value, rest)).ok_or(ActionMistake::Quote);
        }
        let is_escape = character == '\\' && text[at + 1..].starts_with(quote);
        value.push(if is_escape {
            characters.next();
            quote
        } else {
            character
        });
    }
    Err(ActionMistake::Quote)
}

/// Sets a field by its name or, without a name, by its place.
fn set(
    action: &mut ActionFields,
    name: Option<&str>,
    value: String,
    place: usize,
) -> Result<(), ActionMistake> {
    let Some(name) = name else {
        let field = match (place, action.action.to_ascii_lowercase().as_str()) {
            (0, _) => &mut action.action,
            (1, _) => &mut action.label,
            (2, "view" | "http") => &mut action.url,
            (2, "copy") => &mut action.value,
            (_, kind) => {
                ActionKind::of(kind)?;
                return Err(ActionMistake::Term(value));
            }
        };
        *field = value;
        return Ok(());
    };
    if let Some(header) = name.strip_prefix("headers.") {
        action.headers.insert(header.to_owned(), value);
        return Ok(());
    }
    if let Some(extra) = name.strip_prefix("extras.") {
        action.extras.insert(extra.to_owned(), value);
        return Ok(());
    }
    let field = match name.to_ascii_lowercase().as_str() {
        "action" => &mut action.action,
        "label" => &mut action.label,
        "url" => &mut action.url,
        "method" => &mut action.method,
        "body" => &mut action.body,
        "intent" => &mut action.intent,
        "value" => &mut action.value,
        "clear" => {
            action.clear = match value.to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => true,
                "false" | "no" | "0" => false,
                _ => return Err(ActionMistake::Clear),
            };
            return Ok(());
        }
        _ => return Err(ActionMistake::Term(name.to_owned())),
    };
    *field = value;
    Ok(())
}
